/** Errors in the format of the Messages API, with the client's own parameter names. */
import { describe, expect, test } from 'vitest'
import { ERRORS, type ErrorCode, refuse } from '#contract'
import { messagesInbound } from '../../../../../src/providers/dialects/inbound/messages/index.ts'
import { read, VIEW } from './support.ts'

const TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  405: 'invalid_request_error',
  408: 'timeout_error',
  409: 'invalid_request_error',
  413: 'request_too_large',
  415: 'invalid_request_error',
  426: 'invalid_request_error',
  429: 'rate_limit_error',
  431: 'invalid_request_error',
  500: 'api_error',
  502: 'api_error',
  503: 'overloaded_error',
  504: 'timeout_error',
  508: 'api_error',
}

test.each(Object.keys(ERRORS) as ErrorCode[])('%s', code => {
  const { status, message } = ERRORS[code]
  expect(TYPES).toHaveProperty(String(status))
  expect(JSON.parse(messagesInbound.encodeError(refuse(code, { param: 'a' }), VIEW))).toEqual({
    type: 'error',
    error: { type: TYPES[status], message, code, param: 'a', details: { error_code: code } },
    request_id: VIEW.exchange,
  })
})

test('the refusal of a thread has the message that makes the library continue without one', () => {
  const refusal = refuse('unsupported_parameter', { message: 'No.', param: 'thread' })
  expect(JSON.parse(messagesInbound.encodeError(refusal, VIEW)).error).toMatchObject({
    code: 'unsupported_parameter',
    details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
  })
})

describe('places of the canonical body', () => {
  const call = (id: string) => ({ type: 'tool_use', id, name: 'look', input: {} })
  const image = { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }
  const request = {
    system: 'Be brief.',
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'Look' }, image] },
      { role: 'assistant', content: [{ type: 'text', text: 'I do.' }, call('a'), call('b')] },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'a', content: '1' },
          { type: 'tool_result', tool_use_id: 'b', content: [{ type: 'text', text: '2' }, image] },
          { type: 'text', text: 'Go on.' },
        ],
      },
    ],
    tools: [{ name: 'look', input_schema: { type: 'object' } }],
  }
  /** The canonical messages: system, user, assistant, tool a, tool b, user (label, image, text). */
  test.each<[string, string]>([
    ['messages[0].content', 'system'],
    ['messages[0]', 'system'],
    ['messages[1]', 'messages[0]'],
    ['messages[1].content', 'messages[0].content'],
    ['messages[1].content[1].image_url.url', 'messages[0].content[1]'],
    ['messages[2].content', 'messages[1].content'],
    ['messages[2].tool_calls[0]', 'messages[1].content[1]'],
    ['messages[2].tool_calls[1].function.arguments', 'messages[1].content[2].input'],
    ['messages[3].tool_call_id', 'messages[2].content[0].tool_use_id'],
    ['messages[4].content', 'messages[2].content[1].content'],
    ['messages[5].content[1].image_url', 'messages[2].content[1].content[1]'],
    ['messages[5].content[2]', 'messages[2].content[2]'],
    ['messages[9].content', 'messages[9].content'],
    ['max_completion_tokens', 'max_tokens'],
    ['max_tokens', 'max_tokens'],
    ['stop[2]', 'stop_sequences[2]'],
    ['parallel_tool_calls', 'tool_choice.disable_parallel_tool_use'],
    ['reasoning_effort', 'thinking'],
    ['response_format.json_schema.schema', 'output_config.format.schema'],
    ['user', 'metadata.user_id'],
    ['tools[0].function.parameters', 'tools[0].input_schema'],
    ['tools[0].function.name', 'tools[0].name'],
    ['tools[0].type', 'tools[0].type'],
    ['model', 'model'],
  ])('%s is %s', (place, own) => {
    const translated = (message: string, param: string | null) =>
      JSON.parse(read(request).encodeError!(refuse('invalid_value', { message, param }))).error
    expect(translated(`Invalid value for '${place}': no.`, place)).toMatchObject({
      message: `Invalid value for '${own}': no.`,
      param: own,
    })
    // Paths of messages and this name are always recognized. Other words may be the client's own.
    const bare = place.startsWith('messages') || place === 'max_completion_tokens' ? own : place
    expect(translated(`${place} is odd, '${place}'.`, null)).toMatchObject({
      message: `${bare} is odd, '${bare}'.`,
      param: null,
    })
  })

  test('places of an unread body stay unchanged', () => {
    const refusal = refuse('invalid_value', { message: "'messages[1]'", param: 'messages[1]' })
    expect(JSON.parse(messagesInbound.encodeError(refusal, VIEW)).error).toMatchObject({ param: 'messages[1]' })
  })

  test('an effort has the name that the client used', () => {
    const refusal = refuse('unsupported_parameter', { message: "'reasoning_effort'.", param: 'reasoning_effort' })
    const encode = (fields: object) => JSON.parse(read(fields).encodeError!(refusal)).error.param
    expect(encode({ output_config: { effort: 'low' }, thinking: { type: 'adaptive' } })).toBe('output_config.effort')
    expect(encode({ thinking: { type: 'adaptive' } })).toBe('thinking')
  })

  test('everything else in a refusal stays the same', () => {
    const message = "'messages[1]' is odd."
    const refusal = refuse('rate_limit_exceeded', { message, param: 'messages[1]', retryAfterMs: 5, detail: 'd' })
    expect(JSON.parse(read({}).encodeError!(refusal)).error).toMatchObject({ type: 'rate_limit_error', message })
    expect(refusal).toMatchObject({ message, param: 'messages[1]', retryAfterMs: 5, detail: 'd' })
  })
})
