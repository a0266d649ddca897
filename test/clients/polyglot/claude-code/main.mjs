/**
 * Points Claude Code's command at the gateway of TOLLGATE_URL, with the keys TOLLGATE_KEY, TOLLGATE_POOR_KEY and
 * TOLLGATE_WRONG_KEY. Prints one JSON line per feature with the command's result.
 */
import { spawn } from 'node:child_process'

const { TOLLGATE_URL, TOLLGATE_KEY, TOLLGATE_POOR_KEY, TOLLGATE_WRONG_KEY, CLAUDE_CODE } = process.env
/** A command that still retries after this time is stopped. */
const MOST_MS = 60_000
const WEATHER = 'What is the weather in Paris?'
const REPORT = {
  type: 'object',
  properties: { city: { type: 'string' }, celsius: { type: 'integer' } },
  required: ['city', 'celsius'],
  additionalProperties: false,
}

await report('whole', 'Hello', { model: 'm' })
await report('stream', 'Hello', { model: 'm', pieces: true })
await report('tools', WEATHER, { model: 'tools', args: ['--allowedTools', 'Bash'] })
await report('structured', WEATHER, { model: 'structured', args: ['--json-schema', JSON.stringify(REPORT)] })
await report('wrong_key', 'Hello', { model: 'm', key: TOLLGATE_WRONG_KEY })
await report('no_credit', 'Hello', { model: 'm', key: TOLLGATE_POOR_KEY })
await report('limited', 'Hello', { model: 'limited' })
await report('no_model', 'Hello', { model: 'nothing' })
await report('cut', 'Hello', { model: 'breaks', pieces: true })

async function report(feature, prompt, { model, key = TOLLGATE_KEY, pieces = false, args = [] }) {
  const events = await run(['-p', prompt, '--model', model, ...args], model, key)
  const line = { feature }
  if (pieces) {
    const texts = events.flatMap(({ type, event }) => (type === 'stream_event' ? [event.delta?.text ?? ''] : []))
    Object.assign(line, { text: texts.join(''), pieces: texts.filter(Boolean).length })
  }
  const call = events.flatMap(({ message }) => message?.content ?? []).find(block => block.type === 'tool_use')
  if (call) line.tool = call.name
  const end = events.find(({ type }) => type === 'result') ?? { is_error: true, result: 'it printed no result' }
  Object.assign(line, end.structured_output)
  if (end.is_error) line.error = String(end.result ?? end.errors)
  else line[pieces ? 'answer' : 'text'] = end.result
  if (end.is_error) line.status = end.api_error_status ?? null
  if (end.usage) Object.assign(line, { input: end.usage.input_tokens, output: end.usage.output_tokens })
  console.log(JSON.stringify(line))
}

/** Runs the command and returns the events that it prints. */
async function run(args, model, key) {
  const fixedArgs = ['--output-format', 'stream-json', '--verbose', '--include-partial-messages', '--tools', 'Bash']
  const env = {
    ...process.env,
    ANTHROPIC_BASE_URL: TOLLGATE_URL,
    ANTHROPIC_API_KEY: key,
    // Its other requests use small models; here there is only one model.
    ANTHROPIC_SMALL_FAST_MODEL: model,
    ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
  }
  const child = spawn(process.execPath, [CLAUDE_CODE, ...args, ...fixedArgs, '--no-session-persistence'], {
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
