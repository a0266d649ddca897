import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import {
  type AnyPlugin,
  type Chat,
  definePlugin,
  type Log,
  refuse,
  type StepInstance,
  type StepMiddleware,
} from '#contract'
import { ConformError, conform, openBench } from '../../src/testing/index.ts'

const NO_SETTINGS = { type: 'object', additionalProperties: false, properties: {} } as const

type Create = (log?: Log) => StepMiddleware | StepInstance

function pluginOf(create: Create, more: Partial<AnyPlugin> = {}): AnyPlugin {
  return definePlugin({
    name: 'mine',
    settings: NO_SETTINGS,
    ...more,
    create: (_settings: never, services?: { log?: Log }) => create(services?.log),
  } as Parameters<typeof definePlugin>[0])
}

/** The failures, without the endings. */
async function complaintsOf(plugin: AnyPlugin, endings?: readonly string[]): Promise<string[]> {
  try {
    await conform(plugin, {}, endings ? { endings } : {})
    return []
  } catch (error) {
    if (!(error instanceof ConformError)) throw error
    return [...new Set(error.failures.map(({ what }) => what))]
  }
}

/** A chat whose fields can be written: without TypeScript, a plugin can change the facts of other steps. */
type WritableChat = { -readonly [Name in keyof Chat]: Chat[Name] }

type BadPlugin = readonly [name: string, create: Create, complaint: string, more?: Partial<AnyPlugin>]

/** Makes the plugin replace `route`. */
const GIVES_TARGETS: Partial<AnyPlugin> = { name: 'route', needs: ['model'], gives: ['targets'] }

const ROWS: readonly BadPlugin[] = [
  [
    'a timer of each exchange',
    () => async (_ctx, next) => {
      setInterval(() => {}, 60_000).unref()
      await next()
    },
    'after dispose() something is still active: a timer made at test/testing/conform.system.test.ts:',
  ],
  [
    'a timer that dispose forgets',
    () => {
      setInterval(() => {}, 60_000).unref()
      return { handle: (_ctx, next) => next(), dispose() {} }
    },
    'after dispose() something is still active: a timer made at test/testing/conform.system.test.ts:',
  ],
  [
    'a timer without a dispose',
    () => {
      setInterval(() => {}, 60_000).unref()
      return (_ctx, next) => next()
    },
    'after dispose() something is still active: a timer made at test/testing/conform.system.test.ts:',
  ],
  [
    'a server that dispose forgets',
    () => {
      const server = createServer()
      server.listen(0, '127.0.0.1').unref()
      return { handle: (_ctx, next) => next(), dispose() {} }
    },
    'after dispose() something is still active: a server made at test/testing/conform.system.test.ts:',
  ],
  [
    'a dispose that throws',
    () => ({
      handle: (_ctx, next) => next(),
      dispose() {
        throw new Error('cannot release it')
      },
    }),
    'was not released: cannot release it',
  ],
  [
    'a listener on the process',
    () => {
      process.on('tollgate-conform-test' as 'exit', () => {})
      return (_ctx, next) => next()
    },
    'after dispose() a listener for "tollgate-conform-test" is left on the process',
  ],
  [
    'a listener on the signal',
    () => async (ctx, next) => {
      ctx.exchange.signal.addEventListener('abort', () => {})
      await next()
    },
    '1 listeners are left on exchange.signal',
  ],
  [
    'the key in a note',
    () => async (ctx, next) => {
      ctx.exchange.note(`called with ${ctx.get('authorization')}`)
      await next()
    },
    'a secret is in the trail',
  ],
  [
    'the key in a header',
    () => async (ctx, next) => {
      ctx.set('x-who', ctx.get('authorization'))
      await next()
    },
    'a secret is in the answer',
  ],
  [
    'the key in the log',
    (log?: Log) => async (ctx, next) => {
      log!.info({ authorization: ctx.get('authorization') }, 'asked')
      await next()
    },
    'a secret is in the log',
    { uses: ['log'] },
  ],
  [
    'the key in a refusal',
    () => async ctx => {
      throw refuse('forbidden', { message: `Not with ${ctx.get('authorization')}.` })
    },
    'a secret is in the answer',
  ],
  [
    'a slot that is not released on a failure',
    () => {
      let inside = 0
      return async (_ctx, next) => {
        if (inside > 0) throw refuse('rate_limit_exceeded')
        inside++
        await next()
        inside--
      }
    },
    'afterwards the step refuses the same request, which it admits otherwise',
  ],
  [
    'next() twice',
    () => async (_ctx, next) => {
      await next()
      await next()
    },
    'next() was called 2 times',
  ],
  [
    'next() that is not awaited',
    () => async (_ctx, next) => void next(),
    'the step "mine" returned while its next() was pending',
  ],
  [
    'an inner error that is swallowed',
    () => async (_ctx, next) => next().catch(() => {}),
    'the step "mine" caught the error of the answer and did not rethrow it',
  ],
  [
    'neither next() nor an answer',
    () => async () => {},
    'the step "mine" returned without next(), an answer or a refusal',
  ],
  [
    'an error of its own',
    () => async () => {
      throw new Error('broken')
    },
    'the step "mine" threw: broken',
  ],
  [
    'an error after the answer',
    () => async (_ctx, next) => {
      await next()
      throw new Error('too late')
    },
    'the step "mine" threw: too late',
  ],
  [
    'an error after an inner error',
    () => async (_ctx, next) => {
      try {
        await next()
      } catch {
        throw new Error('mine instead')
      }
    },
    'the step "mine" threw after an inner error: mine instead',
  ],
  [
    'a watch that throws',
    () => async (ctx, next) => {
      ctx.exchange.watch(() => {
        throw new Error('cannot look')
      })
      await next()
    },
    'the step "mine" threw in a watch or an edit: cannot look',
  ],
  [
    'a change of the fact of another step',
    () => async (ctx, next) => {
      Object.assign(ctx.exchange.account!, { plan: 'gold' })
      await next()
    },
    `the step "mine" threw: Cannot assign to read only property 'plan' of object '#<Object>'`,
  ],
  [
    'a fact that it changes after the answer',
    () => async (ctx, next) => {
      await next()
      ;(ctx.exchange.chat!.body.messages as unknown[]).length = 0
    },
    'it changes the fact "chat"',
  ],
  [
    'messages that it adds to the list of another step',
    () => async (ctx, next) => {
      ;(ctx.exchange.chat!.body.messages as unknown[]).push({ role: 'user', content: 'and lie' })
      await next()
    },
    'it changes the fact "chat"',
  ],
  [
    'a request that it replaces directly',
    () => async (ctx, next) => {
      const chat = ctx.exchange.chat as WritableChat
      chat.body = { ...chat.body, user: 'anonymous' }
      await next()
    },
    'it changes chat.body or chat.bytes directly: use exchange.rewrite()',
  ],
  [
    'a longer request after the hold',
    () => async (ctx, next) => {
      const chat = ctx.exchange.chat as WritableChat
      chat.body = { ...chat.body, user: 'anonymous' }
      chat.bytes = Buffer.from(JSON.stringify(chat.body))
      await next()
    },
    'it changes the request for which credit is held',
    { needs: ['hold'] },
  ],
  [
    'a cap that it raises',
    () => async (ctx, next) => {
      ctx.exchange.chat!.cap += 1
      await next()
    },
    'it raises chat.cap, which steps may only lower',
  ],
  [
    'a fact that a decision does not give',
    () => ({ decide() {} }),
    'it goes on without giving "targets"',
    GIVES_TARGETS,
  ],
  [
    'a fact that a decision changes',
    () => ({ decide: ({ exchange }) => void ((exchange.chat as WritableChat).stream = true) }),
    'it changes the fact "chat"',
    { needs: ['chat'] },
  ],
  [
    'a fact that is changed at the end',
    () => ({
      decide() {},
      async after({ exchange }) {
        await null
        ;(exchange.chat as WritableChat).stream = true
      },
    }),
    'it changes the fact "chat"',
    { needs: ['chat'] },
  ],
  [
    'a timer of each ending',
    () => ({
      decide() {},
      after() {
        setInterval(() => {}, 60_000).unref()
      },
    }),
    'after dispose() something is still active: a timer made at test/testing/conform.system.test.ts:',
  ],
  ['a fact that it does not give', () => (_ctx, next) => next(), 'it goes on without giving "targets"', GIVES_TARGETS],
]

const bad = ROWS.map(([name, create, complaint, more = {}]) => ({ name, create, complaint, more }))
test.each(bad)('$name is reported', async ({ create, complaint, more }) => {
  const endings = ['answered three', 'cannot be reached']
  const complaints = await complaintsOf(pluginOf(create, more), endings)
  expect(complaints.find(each => each.endsWith(complaint)) ?? complaints.join('; ')).toContain(complaint)
  process.removeAllListeners('tollgate-conform-test')
})

test('a step that calls next() and never returns is reported', async () => {
  const hangs = pluginOf(() => async (_ctx, next) => {
    await next()
    await new Promise(() => {})
  })
  expect(await complaintsOf(hangs, ['reload'])).toContain('the step did not return after the answer had ended')
})

test('a step that never calls next() is reported, without waiting at each ending', async () => {
  const hangs = pluginOf(() => () => new Promise(() => {}))
  await expect(conform(hangs, {}, { patienceMs: 300, endings: ['answered', 'client'] })).rejects.toThrow(
    /^the plugin "mine" does not conform:\n- the request does not end: its trail so far is: .*: answered \(whole\)$/,
  )
})

test('a step may throw if its services fail; one that hides the failure must behave as usual', async () => {
  const take = { uses: ['buckets'] as const, settings: NO_SETTINGS }
  const shape = { capacity: 1, refillPerMs: 1 }
  const throws = definePlugin({
    name: 'mine',
    ...take,
    create:
      (_settings, { buckets }) =>
      async (_ctx, next) => {
        await buckets.take('b', shape, 1)
        await next()
      },
  })
  const forgets = definePlugin({
    name: 'mine',
    ...take,
    create:
      (_settings, { buckets }) =>
      async (_ctx, next) => {
        try {
          await buckets.take('b', shape, 1)
          await next()
        } catch {
          // Neither an answer nor a refusal.
        }
      },
  })
  expect(await complaintsOf(throws, ['services fail'])).toEqual([])
  expect(await complaintsOf(forgets, ['services fail'])).toEqual([
    'the step "mine" returned without next(), an answer or a refusal',
  ])
})

test('a plugin that is not in its policy does not conform', async () => {
  await expect(
    conform(
      pluginOf(() => (_ctx, next) => next()),
      {},
      { endings: ['reload'], steps: [{ use: 'api-key' }, { use: 'schema' }, { use: 'credits' }, { use: 'route' }] },
    ),
  ).rejects.toThrow('the plugin never ran')
})

test('the error names only the endings of each failure', async () => {
  const broken = pluginOf(() => async () => {
    throw new Error('broken')
  })
  await expect(conform(broken, {}, { endings: ['client', 'provider'] })).rejects.toThrow(
    /^the plugin "mine" does not conform:\n- the step "mine" threw: broken \(.*conform\.system\.test\.ts:\d+:\d+\): the provider cannot be reached \(whole\); .*; and \d+ more endings$/m,
  )
})

test('invalid settings are reported', async () => {
  await expect(
    conform(
      pluginOf(() => (_ctx, next) => next()),
      { most: 1 },
    ),
  ).rejects.toThrow(/^the bench cannot be set up:\n.* unknown key "most"/)
})

test('a plugin that refuses every request is reported as untested', async () => {
  const dear = pluginOf(() => async (ctx, next) => {
    if (ctx.exchange.account!.plan !== 'gold') throw refuse('forbidden')
    setInterval(() => {}, 60_000)
    await next()
  })
  const endings = ['answered', 'reload']
  expect(await complaintsOf(dear, endings)).toEqual([expect.stringContaining('it refused every request')])
  await expect(conform(dear, {}, { endings, plan: 'gold' })).rejects.toThrow(
    'after dispose() something is still active',
  )
})

test.each<[string, () => Promise<unknown>, string]>([
  [
    'conform()',
    () =>
      conform(
        pluginOf(() => (_ctx, next) => next()),
        {},
        { setings: {} } as object,
      ),
    'conform(): the option "setings" does not exist; the options are ',
  ],
  [
    'openBench()',
    () => openBench({ credti: '$1' } as object),
    'openBench(): the option "credti" does not exist; did you mean "credit"?',
  ],
  [
    'a request',
    async () => {
      await using bench = await openBench()
      await bench.chat({}, { leaveAftr: 1 } as object)
    },
    'a request: the option "leaveAftr" does not exist; did you mean "leaveAfter"?',
  ],
  [
    'an answer of the provider',
    async () => {
      await using bench = await openBench()
      bench.upstream.script([{}, { ststus: 503 } as object])
    },
    'upstream.script(): the option "ststus" does not exist; did you mean "status"?',
  ],
])('a misspelt option is refused: %s', async (_name, work, sentence) => {
  await expect(work()).rejects.toThrow(sentence)
})

test('plugins conform that answer, that refuse, and that watch every chunk and clean up', async () => {
  const answers = pluginOf(
    () => ctx =>
      ctx.exchange.answer({
        id: 'x',
        object: 'chat.completion',
        created: 1,
        model: 'm',
        choices: [{ index: 0, message: { role: 'assistant', content: 'Mine' }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
      }),
  )
  const refuses = pluginOf(() => async () => {
    throw refuse('forbidden')
  })
  const watches = pluginOf(() => {
    const timer = setInterval(() => {}, 60_000)
    return {
      async handle(ctx, next) {
        let chunks = 0
        ctx.exchange.watch(() => {
          chunks++
        })
        await next()
        ctx.exchange.note(`${chunks} chunks`)
      },
      dispose: () => clearInterval(timer),
    }
  })
  const endings = ['answered', 'client', 'middle']
  expect(await complaintsOf(watches, endings)).toEqual([])
  expect(await complaintsOf(answers, endings)).toEqual([])
  await conform(refuses, {}, { endings, refusesAll: true })
})
