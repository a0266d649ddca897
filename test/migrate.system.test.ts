/**
 * Follows the pages of src/config/migrate for users of other products: writes every file and runs every line. The gateway serves the
 * page's configuration with one fake provider for all providers. Each request of the table "A client sends" gets the answer of the table.
 */
import { cpSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { settingOf } from '../src/cli/import-litellm/settings.ts'
import { type FakeProvider, startFakeProvider, whole } from './helpers/fake-provider.ts'
import { type Gateway, startGateway } from './helpers/gateway.ts'
import { ROOT, read, type Sample, samplesOf, sectionOf, tableOf } from './helpers/repository.ts'
import { openWalk, plain, type Walk, writeSample } from './helpers/walk.ts'

const FOLDER = 'src/config/migrate'
const pages = readdirSync(join(ROOT, FOLDER)).map(name => `${FOLDER}/${name}`)

/** The variables of the pages. */
const ENVIRONMENT = {
  OPENAI_API_KEY: 'sk-1',
  AZURE_API_KEY: 'az-1',
  ANTHROPIC_API_KEY: 'sk-ant-1',
  OPENROUTER_API_KEY: 'or-1',
}

test('there is a page for each product', () => {
  expect(pages.map(page => page.split('/').at(-1))).toEqual([
    'FROM-A-PROVIDER.md',
    'FROM-LITELLM.md',
    'FROM-OPENROUTER.md',
    'FROM-PORTKEY.md',
  ])
})

test('the importer does not convert the keys that the page lists as not converted', () => {
  const page = sectionOf(read(`${FOLDER}/FROM-LITELLM.md`), 'What the importer converts')
  const lists = {
    'at the top': 'top',
    '`general_settings`': 'general',
    '`litellm_settings`': 'litellm',
    '`router_settings`': 'router',
  } as const
  for (const [title, section] of Object.entries(lists)) {
    const line = new RegExp(`^- ${title}: (.*)$`, 'm').exec(page)
    const keys = [...(line?.[1] ?? '').matchAll(/`(\w+)`/g)].map(([, key]) => key!)
    expect(keys.length, title).toBeGreaterThan(3)
    for (const key of keys) {
      expect(settingOf(section, key)?.fate, `${title}: ${key} is not carried`).toBe('lost')
    }
  }
})

describe.each(pages)('%s', page => {
  let walk: Walk
  let provider: FakeProvider
  let gateway: Gateway | null = null
  let printed = ''
  let key = ''
  // Each step needs the steps before it.
  let hasFailed = false

  beforeAll(async () => {
    walk = await openWalk('checkout')
    cpSync(join(ROOT, 'policies'), join(walk.folder, 'policies'), { recursive: true })
    provider = await startFakeProvider({ script: whole() })
  })
  afterAll(async () => {
    walk?.shell.close()
    await gateway?.stop()
    await provider?.close()
  })

  const blocks = samplesOf(page)
  test.each(blocks.map(block => [block.place, block.text.split('\n')[0], block] as const))(
    '%s %s',
    async (_place, _line, block) => {
      expect(hasFailed, 'a step before this one failed').toBe(false)
      hasFailed = true
      await follow(block)
      hasFailed = false
    },
  )

  test('the page has files and commands, creates a key and starts a gateway', () => {
    expect(blocks.map(({ language }) => language)).toEqual(expect.arrayContaining(['yaml', 'sh']))
    expect(key).toMatch(/^tg_live_/)
    expect(gateway).not.toBeNull()
  })

  const rows = tableOf(read(page), 'A client sends').flatMap(([sent, answer]) => requestsOf(sent!, answer!))
  test.each(rows)('a client sends $sent', async row => {
    const before = provider.requests.length
    const answer = await send(row)
    const body = (await answer.json()) as { error?: { code: string } }
    expect({ status: answer.status, code: body.error?.code }, JSON.stringify(body)).toEqual({
      status: row.status,
      code: row.code,
    })
    const [sent, ...more] = provider.requests.slice(before)
    expect([sent === undefined, more]).toEqual([row.status !== 200, []])
    // The headers of a client about itself or about the route do not reach a provider.
    const headers = Object.keys(sent?.headers ?? {}).join(' ')
    expect(headers).not.toMatch(/portkey|litellm|referer|x-title|organization|openai-/)
  })

  async function follow(block: Sample): Promise<void> {
    const { language, text, place } = block
    if (language === 'json') return void JSON.parse(text)
    if (language === 'python') return expectAddress(/base_url="([^"]+)"/.exec(text)?.[1])
    if (language === 'yaml') {
      expect(gateway, `${place}: the gateway has started already and does not read this file`).toBeNull()
      return writeSample(walk.folder, block)
    }
    if (language === '') return expect(plain(printed), place).toBe(plain(text))
    expect(language, place).toBe('sh')
    if (text === 'npx tollgate serve\n') gateway = await serve()
    else if (text.startsWith('export OPENAI_BASE_URL=')) expectAddress(/BASE_URL=(\S+)/.exec(text)?.[1])
    else {
      printed = await walk.shell.run(text)
      key = /\btg_live_\w+/.exec(printed)?.[0] ?? key
    }
  }

  /** Starts a gateway with the page's configuration, the address of the fake provider, and free ports. */
  function serve(): Promise<Gateway> {
    const dir = join(walk.folder, 'gate')
    const yaml = readFileSync(join(dir, 'gateway.yaml'), 'utf8')
      .replaceAll(/127\.0\.0\.1:\d{4}/g, '127.0.0.1:0')
      .replaceAll(/(?<=base_url: )https:[^\s,]+/g, provider.baseUrl)
    return startGateway({ yaml, dir, env: { ...ENVIRONMENT, AZURE_API_BASE: provider.url } })
  }

  function expectAddress(url: string | undefined): void {
    // The address on the page; the served file has another port.
    const sample = blocks.find(({ text }) => text.startsWith('version: 1\n'))
    const listen = sample ? (parse(sample.text) as { listen: string }).listen : '127.0.0.1:4000'
    expect(url).toBe(`http://${listen}/v1`)
  }

  function send({ sent, body, header, path, text, withoutKey }: Row): Promise<Response> {
    const [method = 'POST', address = '/v1/chat/completions'] = path ?? []
    const [model] = Object.keys(models())
    // A different message in each row, because one of the policies has a cache.
    const messages = [{ role: 'user', content: sent }]
    return fetch(`${gateway!.url}${address}`, {
      method,
      headers: {
        'content-type': 'application/json',
        ...(withoutKey ? {} : { authorization: `Bearer ${key}` }),
        ...(header ? { [header[0].toLowerCase()]: header[1].replace('KEY', key) } : {}),
      },
      ...(method === 'POST' ? { body: text ?? JSON.stringify({ model, messages, ...body }) } : {}),
    })
  }

  function models(): object {
    const { models } = parse(readFileSync(join(walk.folder, 'gate/gateway.yaml'), 'utf8')) as { models: object }
    return models
  }
})

interface Row {
  /** The text of the page. */
  readonly sent: string
  readonly status: number
  readonly code: string | undefined
  readonly body?: object
  readonly header?: readonly [name: string, value: string]
  readonly path?: readonly [method: string, path: string]
  /** The body, sent unchanged. */
  readonly text?: string | undefined
  readonly withoutKey?: boolean
}

/** Each part of a row is a separate request: members of the body, a header, or a method and a path. */
function requestsOf(cell: string, answer: string): Row[] {
  const [, status, code] = /^(\d{3})(?: `(\w+)`)?/.exec(answer) ?? []
  if (status === undefined) throw new Error(`the answer does not begin with a status: ${answer}`)
  const withoutKey = cell.includes('in place of `Authorization`')
  const pieces = [...cell.matchAll(/`([^`]+)`/g)].map(([, piece]) => piece!).filter(piece => piece !== 'Authorization')
  return pieces.map(sent => {
    const row = { sent, status: Number(status), code, withoutKey }
    const path = /^(GET|POST) (\/\S*)(?: (\{.*\}))?$/.exec(sent)
    if (path) return { ...row, path: [path[1]!, path[2]!] as const, text: path[3] }
    if (sent.startsWith('"')) return { ...row, body: JSON.parse(`{${sent}}`) as object }
    const header = /^([\w-]+): (.*)$/.exec(sent)
    if (!header) throw new Error(`neither a member, nor a header, nor a path: ${sent}`)
    return { ...row, header: [header[1]!, header[2]!] as const }
  })
}
