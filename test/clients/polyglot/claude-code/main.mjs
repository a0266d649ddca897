/**
 * Points Claude Code's command at the gateway of TOLLGATE_URL, with the keys TOLLGATE_KEY, TOLLGATE_POOR_KEY and
 * TOLLGATE_WRONG_KEY. Prints one JSON line a feature: what the command made of the answer.
 */
import { spawn } from 'node:child_process'

const { TOLLGATE_URL, TOLLGATE_KEY, TOLLGATE_POOR_KEY, TOLLGATE_WRONG_KEY, CLAUDE_CODE } = process.env
/** It has tried for so long: a command that goes on trying is stopped. */
const MOST_MS = 60_000
const WEATHER = 'What is the weather in Paris?'
const REPORT = {
  type: 'object',
  properties: { city: { type: 'string' }, celsius: { type: 'integer' } },
  required: ['city', 'celsius'],
  additionalProperties: false,
}

await tell('whole', 'Hello', { model: 'm' })
await tell('stream', 'Hello', { model: 'm', pieces: true })
await tell('tools', WEATHER, { model: 'tools', args: ['--allowedTools', 'Bash'] })
await tell('structured', WEATHER, { model: 'structured', args: ['--json-schema', JSON.stringify(REPORT)] })
await tell('wrong_key', 'Hello', { model: 'm', key: TOLLGATE_WRONG_KEY })
await tell('no_credit', 'Hello', { model: 'm', key: TOLLGATE_POOR_KEY })
await tell('limited', 'Hello', { model: 'limited' })
await tell('no_model', 'Hello', { model: 'nothing' })
await tell('cut', 'Hello', { model: 'breaks', pieces: true })

async function tell(feature, prompt, { model, key = TOLLGATE_KEY, pieces = false, args = [] }) {
  const events = await run(['-p', prompt, '--model', model, ...args], model, key)
  const seen = { feature }
  if (pieces) {
    const texts = events.flatMap(({ type, event }) => (type === 'stream_event' ? [event.delta?.text ?? ''] : []))
    Object.assign(seen, { text: texts.join(''), pieces: texts.filter(Boolean).length })
  }
  const call = events.flatMap(({ message }) => message?.content ?? []).find(block => block.type === 'tool_use')
  if (call) seen.tool = call.name
  const end = events.find(({ type }) => type === 'result') ?? { is_error: true, result: 'it has not ended' }
  Object.assign(seen, end.structured_output)
  if (end.is_error) seen.error = String(end.result ?? end.errors)
  else seen[pieces ? 'answer' : 'text'] = end.result
  if (end.is_error) seen.status = end.api_error_status ?? null
  if (end.usage) Object.assign(seen, { input: end.usage.input_tokens, output: end.usage.output_tokens })
  console.log(JSON.stringify(seen))
}

/** The events that the command prints. */
async function run(args, model, key) {
  const told = ['--output-format', 'stream-json', '--verbose', '--include-partial-messages', '--tools', 'Bash']
  const env = {
    ...process.env,
    ANTHROPIC_BASE_URL: TOLLGATE_URL,
    ANTHROPIC_API_KEY: key,
    // Its other requests ask small models; here there is one.
    ANTHROPIC_SMALL_FAST_MODEL: model,
    ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
  }
  const child = spawn(process.execPath, [CLAUDE_CODE, ...args, ...told, '--no-session-persistence'], {
    env,
    timeout: MOST_MS,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let stdout = ''
  child.stdout.setEncoding('utf8').on('data', text => {
    stdout += text
  })
  await new Promise((resolve, reject) => child.once('close', resolve).once('error', reject))
  return stdout.split('\n').flatMap(line => (line.startsWith('{') ? [JSON.parse(line)] : []))
}
