/**
 * `tollgate demo`: starts a gateway on a free port with a temporary store and requests a streamed and a whole answer over HTTP.
 * It then shows that the account paid exactly their cost, to the nano-dollar.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type AddCommand, example, withoutConfig } from './commands.ts'
import { showMoney } from './format.ts'
import { CommandError, type ExitCode, type Terminal } from './terminal.ts'

export const addDemo: AddCommand = (program, { terminal, finish }) => {
  withoutConfig(program.command('demo'))
    .description('start a temporary gateway, send two requests, print their cost, and clean up')
    .addHelpText('after', example('demo'))
    .action(() => finish(() => demo(terminal)))
}

const CREDIT = '1'

async function demo(terminal: Terminal): Promise<ExitCode> {
  const [{ serve }, { runVerb }, { demoModel }] = await Promise.all([
    import('../main.ts'),
    import('../api/control/verbs.ts'),
    import('./quick-start.ts'),
  ])
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-demo-'))
  let running: Awaited<ReturnType<typeof serve>> | undefined
  try {
    const configFile = await writeConfiguration(folder)
    // Discard the gateway's log: it would hide the demo's own lines.
    running = await serve({ configFile, env: terminal.env, stdout: () => {} })
    const { store, url } = running
    const model = demoModel(running.configuration)
    if (!model) throw new CommandError('The shipped gateway.yaml has no model of the demo provider.')
    await runVerb(store, 'account.create', { name: 'demo', credit: CREDIT, actor: 'demo' })
    const { token } = await runVerb(store, 'key.create', { account: 'demo', name: 'demo' })
    const available = async (): Promise<string> =>
      (await runVerb(store, 'account.show', { account: 'demo' })).account.available

    terminal.out(`A gateway on ${url} with the embedded demo provider; nothing leaves this machine.\n`)
    const before = await available()
    const client = { terminal, url, token, model: model.id }
    const streamed = await streamOne(client)
    const whole = await askOne(client)
    const after = await available()
    await showBill(terminal, { before, after, costs: [streamed, whole] })
    return 0
  } finally {
    running?.drain()
    await running?.finished
    rmSync(folder, { recursive: true, force: true })
  }
}

interface Client {
  readonly terminal: Terminal
  readonly url: string
  readonly token: string
  readonly model: string
}

/** Requests a stream and prints it as it arrives. Returns its cost in dollars. */
async function streamOne(client: Client): Promise<string> {
  const { terminal } = client
  const question = 'Greet me in two sentences.'
  terminal.out(`\n1. A stream\n\n   > ${question}\n   `)
  const response = await ask(client, question, true)
  const { SseReader } = await import('../providers/dialects/sse.ts')
  const reader = new SseReader()
  let finished = false
  let done = false
  const take = (data: string): void => {
    if (data === '[DONE]') {
      done = true
      return
    }
    const chunk = JSON.parse(data) as StreamEvent
    if (chunk.error) throw new CommandError(`The stream ended in an error: ${chunk.error.message}`)
    const [choice] = chunk.choices ?? []
    if (choice?.delta?.content) terminal.out(choice.delta.content.replaceAll('\n', '\n   '))
    if (choice?.finish_reason) finished = true
  }
  for await (const piece of response.body ?? []) {
    for (const event of reader.push(Buffer.from(piece))) take(event.data.toString('utf8'))
  }
  for (const event of reader.end()) take(event.data.toString('utf8'))
  if (!finished || !done) throw new CommandError('The stream ended without a finish reason and [DONE].')
  return showCost(client, response)
}

/** Requests a whole answer. Its costs in the header and in the receipt must be equal. Returns the cost in dollars. */
async function askOne(client: Client): Promise<string> {
  const { terminal } = client
  const question = 'What does a gateway do?'
  terminal.out(`\n2. A whole answer\n\n   > ${question}\n   `)
  const response = await ask(client, question, false)
  const answer = (await response.json()) as { choices: { message: { content: string } }[] }
  terminal.out(answer.choices[0]?.message.content.replaceAll('\n', '\n   ') ?? '')
  const cost = await showCost(client, response)
  const header = response.headers.get('x-tollgate-cost')
  if (header !== cost) throw new CommandError(`The header x-tollgate-cost is ${header}, but the receipt has ${cost}.`)
  return cost
}

async function ask({ url, token, model }: Client, content: string, stream: boolean): Promise<Response> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, stream, messages: [{ role: 'user', content }] }),
  })
  if (!response.ok) throw new CommandError(`The gateway answered ${response.status}: ${await response.text()}`)
  return response
}

/** Reads the receipt of an answer, prints its cost and returns it. */
async function showCost({ terminal, url, token }: Client, answer: Response): Promise<string> {
  const id = answer.headers.get('x-request-id')
  const response = await fetch(`${url}/v1/receipts/${id}`, { headers: { authorization: `Bearer ${token}` } })
  if (!response.ok)
    throw new CommandError(`The receipt for ${id} is missing: ${response.status} ${await response.text()}`)
  const receipt = (await response.json()) as Receipt
  const { prompt_tokens: prompt, completion_tokens: completion } = receipt.usage
  terminal.out(`\n\n   cost ${showMoney(receipt.charged)}: ${prompt} tokens in, ${completion} out (receipt ${id})\n`)
  return receipt.charged
}

async function showBill(terminal: Terminal, bill: { before: string; after: string; costs: string[] }): Promise<void> {
  const { formatMoney, parseMoney } = await import('../contract/quantities.ts')
  const spent = parseMoney(bill.before) - parseMoney(bill.after)
  const costs = bill.costs.reduce((sum, cost) => sum + parseMoney(cost), 0n)
  terminal.out(`\n   before ${showMoney(bill.before)}, after ${showMoney(bill.after)}\n`)
  const [left, billed] = [showMoney(formatMoney(spent)), showMoney(formatMoney(costs))]
  if (spent !== costs) throw new CommandError(`${left} left the account, but both answers together cost ${billed}.`)
  if (costs === 0n) throw new CommandError('Both answers were free, so the demo shows nothing.')
  terminal.out(`   ${left} left the account: exactly what both answers cost.\n`)
}

/**
 * Writes a configuration with the shipped policies and the demo models of the shipped catalog. Other models of gateway.yaml
 * may need credentials. Returns its path.
 */
async function writeConfiguration(folder: string): Promise<string> {
  const { parse } = await import('yaml')
  const root = fileURLToPath(new URL('../../', import.meta.url))
  const shipped = parse(readFileSync(join(root, 'gateway.yaml'), 'utf8')) as ShippedFile
  const demos = Object.entries(shipped.providers).filter(([, { dialect }]) => dialect === 'demo')
  // Slow enough to see the stream, fast enough to wait for it.
  const providers = Object.fromEntries(demos.map(([name]) => [name, { dialect: 'demo', pace: '15ms' }]))
  const models = Object.entries(shipped.models).filter(([, { targets }]) =>
    targets.every(({ provider }) => Object.hasOwn(providers, provider)),
  )
  const configuration = {
    version: 1,
    listen: '127.0.0.1:0',
    store: 'sqlite:./data/tollgate.db',
    providers,
    models: Object.fromEntries(models),
    routes: [{ path: '/v1/chat/completions', policy: 'standard' }],
  }
  cpSync(join(root, 'policies'), join(folder, 'policies'), { recursive: true })
  const file = join(folder, 'gateway.yaml')
  // JSON is YAML.
  writeFileSync(file, JSON.stringify(configuration, null, 2))
  return file
}

/** The part of the shipped gateway.yaml that the demo uses. */
interface ShippedFile {
  readonly providers: Record<string, { readonly dialect: string }>
  readonly models: Record<string, { readonly targets: readonly { readonly provider: string }[] }>
}

interface StreamEvent {
  readonly error?: { readonly message: string }
  readonly choices?: readonly { delta?: { content?: string | null }; finish_reason?: string | null }[]
}

interface Receipt {
  readonly charged: string
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number }
}
