/** From an empty folder to the answer of a provider, with real processes and a scripted provider. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { calcPrice } from '@pydantic/genai-prices'
import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { exact, type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import { createAccount, startGateway, temporaryDirectory, tollgate } from '../helpers/gateway.ts'
import { NOT_ON_LINUX, testWith } from '../helpers/missing.ts'
import { without } from '../helpers/programs.ts'
import { ROOT } from '../helpers/repository.ts'

const MODEL = 'gpt-5-mini'
const WORDS = ['Hello', ' from', ' the', ' provider.']
const KEY = 'sk-the-key-of-the-provider'

let provider: FakeProvider
let folder: string
let started: number
beforeAll(async () => {
  provider = await startFakeProvider({ script: exact({ tokens: WORDS, promptTokens: 17 }) })
})
afterAll(() => provider.close())
beforeEach(async () => {
  folder = await temporaryDirectory()
  started = performance.now()
})

/** Steps 1 and 2: writes the files and the key. Then sets free ports and the scripted provider, which only a test does. */
async function prepare(): Promise<void> {
  expect(await tollgate(['init', '--provider', 'openai'], { cwd: folder })).toMatchObject({ code: 0, stderr: '' })
  appendFileSync(join(folder, '.env'), `OPENAI_API_KEY=${KEY}\n`)
  const file = join(folder, 'gateway.yaml')
  const text = readFileSync(file, 'utf8').replaceAll(/127\.0\.0\.1:\d+/g, '127.0.0.1:0')
  writeFileSync(file, text.replace('https://api.openai.com/v1', provider.baseUrl))
}

/** Streams a completion with the official library and returns its list price in nano-dollars. */
async function complete(baseURL: string, apiKey: string): Promise<bigint> {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 })
  const chunks = await client.chat.completions.create({
    model: MODEL,
    stream: true,
    stream_options: { include_usage: true },
    messages: [{ role: 'user', content: 'Hello!' }],
  })
  let text = ''
  let usage: OpenAI.CompletionUsage | null | undefined
  for await (const chunk of chunks) {
    text += chunk.choices[0]?.delta.content ?? ''
    usage = chunk.usage ?? usage
  }
  expect(text).toBe(WORDS.join(''))
  expect(usage).toMatchObject({ prompt_tokens: 17, completion_tokens: WORDS.length })
  const { headers, body } = provider.requests.at(-1)!
  expect(headers['authorization']).toBe(`Bearer ${KEY}`)
  expect(body?.['model']).toBe(MODEL)
  const tokens = { input_tokens: usage!.prompt_tokens, output_tokens: usage!.completion_tokens }
  return BigInt(Math.round(calcPrice(tokens, MODEL, { providerId: 'openai' })!.total_price * 1e9))
}

async function balance(account: string): Promise<bigint> {
  const { code, stdout } = await tollgate(['account', 'show', account, '--json'], {
    config: join(folder, 'gateway.yaml'),
  })
  expect(code).toBe(0)
  const { posted, held } = (JSON.parse(stdout) as { account: Readonly<Record<'posted' | 'held', string>> }).account
  expect(held).toBe('0.000000000')
  return BigInt(posted.replace('.', ''))
}

const WITHOUT_SCRIPT = NOT_ON_LINUX ?? without('script', 'bsdutils')

/** Runs a command with a terminal as stdin and stdout. */
function atTerminal(command: string) {
  // Without exec, the shell would get Ctrl-C too: dash then exits with 130 whatever the command returns.
  const line = `exec '${process.execPath}' '${join(ROOT, 'src/cli/tollgate.js')}' ${command}`
  const env = { ...process.env, OPENAI_API_KEY: undefined }
  const child = spawn('script', ['-qefc', line, '/dev/null'], { cwd: folder, env })
  const code = once(child, 'close').then(([status]: (number | null)[]) => status)
  let out = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  return {
    code,
    out: () => out,
    type: (keys: string) => child.stdin.write(keys),
    /** Rejects if the command ends before a match. */
    until: (pattern: RegExp) =>
      new Promise<RegExpExecArray>((resolve, reject) => {
        child.stdout.on('data', () => {
          const match = pattern.exec(out)
          if (match) resolve(match)
        })
        void code.then(() => reject(new Error(out)))
      }),
  }
}

const FIVE = 5_000_000_000n
const report = (steps: string) =>
  console.log(`an empty folder to a charged answer: ${steps}, ${((performance.now() - started) / 1000).toFixed(1)} s`)

describe('init, a key in .env and serve: a streamed answer is charged at the list price', () => {
  testWith(WITHOUT_SCRIPT, 'at a terminal, with the key that serve prints', async () => {
    await prepare()
    const terminal = atTerminal('serve')
    onTestFinished(async () => {
      terminal.type('\x03')
      expect(await terminal.code).toBe(0)
    })
    const [, url, key] = await terminal.until(
      /export OPENAI_BASE_URL=(\S+)\s+export OPENAI_API_KEY=(\S+)[\s\S]*Another key:/,
    )
    const price = await complete(url!, key!)
    report('3 steps (init, the key, serve)')
    expect(price).toBeGreaterThan(0n)
    expect(await balance('first')).toBe(FIVE - price)
    expect(terminal.out()).not.toContain(KEY)
  })

  test('without a terminal, with two commands for an account and a key', async () => {
    await prepare()
    const gateway = await startGateway({ yaml: readFileSync(join(folder, 'gateway.yaml'), 'utf8'), dir: folder })
    const { accountId, key } = await createAccount(gateway, { credit: 5 })
    const price = await complete(`${gateway.url}/v1`, key)
    report('5 steps (init, the key, serve, an account, its key)')
    expect(await balance(accountId)).toBe(FIVE - price)
    const text = 'a first account and key: '
    const { text: line } = await gateway.waitForLog(({ text: each }) => String(each).includes(text))
    expect(line).toContain('account create NAME --credit 10 && ')
    expect(await gateway.stop()).toBe(0)
  })
})

describe('init without a provider asks at a terminal', () => {
  testWith(WITHOUT_SCRIPT, 'the answer chooses the providers', async () => {
    const terminal = atTerminal('init')
    await terminal.until(/embedded demo\): /)
    terminal.type('1, groq\r')
    expect(await terminal.code, terminal.out()).toBe(0)
    expect(readFileSync(join(folder, 'gateway.yaml'), 'utf8')).toContain('# A gateway for OpenAI and Groq.')
  })

  testWith(WITHOUT_SCRIPT, 'Ctrl-C ends it and writes nothing', async () => {
    const terminal = atTerminal('init')
    await terminal.until(/embedded demo\): /)
    terminal.type('\x03')
    expect(await terminal.code).toBe(1)
    expect(terminal.out()).toContain('error: no answer was given, so nothing was done')
    expect(readdirSync(folder)).toEqual([])
  })
})
