/** The schema in an editor: yaml-language-server over stdio, as editors run it. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { editorSchema } from '../../src/config/json-schema.ts'
import { BUILT_IN } from '../../src/loader/builtin.ts'
import { POLICY_TEST_SCHEMA } from '../../src/testing/policy/schema.ts'
import { PACKAGES } from '../helpers/packages.ts'

const SERVER = join(PACKAGES, 'node_modules/yaml-language-server/bin/yaml-language-server')

/** Marks the cursor in a text. */
const CURSOR = '▸'

interface Completion {
  readonly label: string
  readonly documentation?: string | { readonly value: string }
}

interface Editor {
  /** Returns the problems that the editor underlines: `line:column message`, both from 1. */
  problems(name: string, text: string): Promise<string[]>
  /** Returns the hover text at the cursor. */
  hover(name: string, text: string): Promise<string>
  /** Returns the completions at the cursor. */
  complete(name: string, text: string): Promise<Completion[]>
  close(): Promise<void>
}

const folder = mkdtempSync(join(tmpdir(), 'tollgate-editor-'))
let editor: Editor
beforeAll(async () => {
  const schema = editorSchema(
    BUILT_IN.map(plugin => ({ use: plugin.name, plugin })),
    POLICY_TEST_SCHEMA,
  )
  writeFileSync(join(folder, 'schema.json'), JSON.stringify(schema))
  editor = await startEditor()
})
afterAll(async () => {
  await editor?.close()
  rmSync(folder, { recursive: true, force: true })
})

const gateway = (more: string) => `version: 1
providers:
  demo: { dialect: demo }
models: {}
routes:
  - { path: /v1/chat/completions, policy: standard }
${more}`
const policy = (more: string) => `steps:
  - use: api-key
  - use: schema
${more}`

describe('yaml-language-server', () => {
  test.each([
    ['gateway.yaml', gateway('lisen: 127.0.0.1:1\n'), '7:1 Property lisen is not allowed.'],
    ['gateway.yaml', gateway('trust_proxy: 17\n'), '7:14 Value is above the maximum of 16.'],
    ['gateway.yaml', gateway('drain: 30\n'), '7:8 Incorrect type. Expected "string".'],
    ['gateway.yaml', gateway('').replace('dialect: demo', 'dialect: dmeo'), '3:20 '],
    ['policy.yaml', policy('  - use: rate-limit\n    with: { prr: key }\n'), '5:13 Property prr is not allowed.'],
    ['policy.yaml', policy('  - use: rate-limit\n    whit: {}\n'), '5:5 Property whit is not allowed.'],
    ['policy.yaml', policy('  - use: raet-limit\n'), '4:10 '],
  ])('%s: a mistake is underlined: %#', async (name, text, problem) => {
    expect((await editor.problems(name, text)).join('\n')).toContain(problem)
  })

  test.each([
    ['gateway.yaml', gateway('drain: 30s\ntrust_proxy: ${HOPS}\n')],
    ['policy.yaml', policy('  - use: rate-limit\n    with: { per: key, requests: 5 per minute }\n')],
    ['policy.yaml', policy('  - use: ./mine.ts\n    with: { anything: 1 }\n')],
  ])('%s: nothing is underlined in a valid file: %#', async (name, text) => {
    expect(await editor.problems(name, text)).toEqual([])
  })

  test.each([
    ['gateway.yaml', gateway('dr▸ain: 30s\n'), 'How long streams can continue after SIGTERM.', '500ms, 15s, 10m'],
    ['gateway.yaml', gateway('limits:\n  bo▸dy: 1MiB\n'), 'The largest request body', 'From 1KiB to 32MiB.'],
    ['gateway.yaml', gateway('').replace('dialect: demo', 'dia▸lect: demo'), 'The wire format of the provider.', ''],
    ['policy.yaml', policy('  - use: rate-limit\n    wh▸en: chat.stream\n'), 'A condition (CEL).', ''],
    ['policy.yaml', policy('  - use: rate-limit\n    with:\n      p▸er: key\n'), settingWords('rate-limit', 'per'), ''],
    [
      'policy.yaml',
      policy('  - use: credits\n    with:\n      when_s▸hort: [refuse]\n'),
      settingWords('credits', 'when_short'),
      '',
    ],
  ])('%s: the description of a key is shown: %#', async (name, text, ...words) => {
    const shown = (await editor.hover(name, text)).replaceAll('\\', '')
    for (const each of words) expect(shown).toContain(each)
  })

  test.each([
    ['gateway.yaml', gateway('he▸'), ['heartbeat']],
    ['gateway.yaml', gateway('limits:\n  ▸'), ['max_inflight', 'body', 'stall']],
    ['gateway.yaml', gateway('').replace('{ dialect: demo }', '\n    dialect: ▸'), ['openai', 'anthropic', 'demo']],
    ['policy.yaml', policy('  - use: ▸'), ['api-key', 'rate-limit', 'credits', 'route']],
    ['policy.yaml', policy('  - use: rate-limit\n    ▸'), ['with', 'when', 'mode', 'onError']],
    ['policy.yaml', policy('  - use: rate-limit\n    with:\n      ▸'), ['per', 'requests', 'tokens', 'burst']],
    ['policy.yaml', policy('  - use: rate-limit\n    with:\n      per: ▸'), ['key', 'account', 'address']],
    ['policy.yaml', policy('  - use: route\n    mode: ▸'), ['enforce', 'shadow']],
    ['x.test.yaml', 'tests:\n  - name: x\n    expect:\n      ▸', ['status', 'charged', 'decided_by']],
  ])('%s: completions: %#', async (name, text, labels) => {
    expect((await editor.complete(name, text)).map(({ label }) => label)).toEqual(expect.arrayContaining(labels))
  })

  test('the settings of one plugin are not offered for another', async () => {
    const offered = await editor.complete('policy.yaml', policy('  - use: credits\n    with:\n      ▸'))
    const labels = offered.map(({ label }) => label)
    expect(labels).toContain('when_short')
    expect(labels).not.toContain('requests')
  })
})

function settingWords(name: string, setting: string): string {
  const { settings } = BUILT_IN.find(plugin => plugin.name === name)!
  return (settings.properties[setting] as { description: string }).description.slice(0, 40)
}

async function startEditor(): Promise<Editor> {
  const child = spawn(process.execPath, [SERVER, '--stdio'], { stdio: 'pipe' })
  const talk = new Conversation(child)
  const root = pathToFileURL(folder).href
  await talk.ask('initialize', { processId: process.pid, rootUri: root, capabilities: {}, workspaceFolders: null })
  talk.notify('initialized', {})
  let count = 0
  const open = (name: string, text: string) => {
    const at = text.indexOf(CURSOR)
    const before = text.slice(0, Math.max(at, 0)).split('\n')
    const uri = pathToFileURL(join(folder, `${++count}-${name}`)).href
    const line = `# yaml-language-server: $schema=./schema.json\n`
    const item = { uri, languageId: 'yaml', version: 1, text: line + text.replace(CURSOR, '') }
    talk.notify('textDocument/didOpen', { textDocument: item })
    return { textDocument: { uri }, position: { line: before.length, character: before.at(-1)!.length } }
  }
  return {
    async problems(name, text) {
      const { textDocument } = open(name, text)
      const { diagnostics } = await talk.notification<{ diagnostics: Diagnostic[] }>(
        'textDocument/publishDiagnostics',
        params => params.uri === textDocument.uri,
      )
      // The server counts lines from 0, and the line of the schema is first.
      return diagnostics.map(({ range, message }) => `${range.start.line}:${range.start.character + 1} ${message}`)
    },
    async hover(name, text) {
      const result = await talk.ask<{ contents: { value: string } } | null>('textDocument/hover', open(name, text))
      return result?.contents.value ?? ''
    },
    async complete(name, text) {
      const result = await talk.ask<{ items: Completion[] }>('textDocument/completion', open(name, text))
      return result.items
    },
    async close() {
      const exited = new Promise(resolve => child.once('exit', resolve))
      await talk.ask('shutdown', null)
      talk.notify('exit', null)
      await exited
    },
  }
}

interface Diagnostic {
  readonly range: { readonly start: { readonly line: number; readonly character: number } }
  readonly message: string
}

interface Message {
  readonly id?: number
  readonly method?: string
  readonly params?: never
  readonly result?: never
  readonly error?: { readonly message: string }
}

/** JSON-RPC with `Content-Length` headers. */
class Conversation {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #pending = new Map<number, (message: Message) => void>()
  readonly #listeners = new Set<(message: Message) => void>()
  #rest = Buffer.alloc(0)
  #count = 0

  constructor(child: ChildProcessWithoutNullStreams) {
    this.#child = child
    child.stdout.on('data', (bytes: Buffer) => this.#read(bytes))
  }

  ask<Result>(method: string, params: unknown): Promise<Result> {
    const id = ++this.#count
    this.#send({ id, method, params })
    return new Promise((resolve, reject) => {
      this.#pending.set(id, ({ result, error }) =>
        error ? reject(new Error(error.message)) : resolve(result as Result),
      )
    })
  }

  notify(method: string, params: unknown): void {
    this.#send({ method, params })
  }

  /** Returns the next notification of that method that fits. */
  notification<Params>(method: string, fits: (params: { uri?: string }) => boolean): Promise<Params> {
    return new Promise(resolve => {
      const listen = (message: Message) => {
        if (message.method !== method || !fits(message.params ?? {})) return
        this.#listeners.delete(listen)
        resolve(message.params as Params)
      }
      this.#listeners.add(listen)
    })
  }

  #send(message: object): void {
    const body = JSON.stringify({ jsonrpc: '2.0', ...message })
    this.#child.stdin.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
  }

  #read(bytes: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, bytes])
    for (;;) {
      const head = /^[\s\S]*?Content-Length: (\d+)[\s\S]*?\r\n\r\n/i.exec(this.#rest.toString('latin1'))
      if (head === null || this.#rest.length < head[0].length + Number(head[1])) return
      const end = head[0].length + Number(head[1])
      const message = JSON.parse(this.#rest.toString('utf8', head[0].length, end)) as Message
      this.#rest = this.#rest.subarray(end)
      // The server's own requests, such as for settings, get an empty result.
      if (message.method !== undefined && message.id !== undefined) this.#send({ id: message.id, result: null })
      else if (message.id !== undefined) this.#pending.get(message.id)?.(message)
      else for (const listener of this.#listeners) listener(message)
    }
  }
}
