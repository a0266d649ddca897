/**
 * Token counting by OpenAI itself. Its endpoint accepts only the format of Responses, so the conversation is translated for it.
 * https://platform.openai.com/docs/api-reference/responses/input-tokens
 */
import type { ChatRequest, TokenCounting } from '#contract'
import { argumentsText, bodyOf } from '../translate/body.ts'
import { type Part, readConversation, type Source, type Turn } from '../translate/conversation.ts'
import { customToolsOf } from '../translate/custom-tools.ts'
import { readEffort, readResponseFormat, readTools } from '../translate/parameters.ts'

type Fields = Readonly<Record<string, unknown>>

export const openAiCounting: TokenCounting = {
  encodeRequest({ body }, { model }) {
    const { system, turns } = readConversation(body)
    // A conversation has custom tools as functions, so they would be counted as functions.
    if (customToolsOf(body) !== undefined) return null
    // The endpoint does not count audio.
    if (turns.some(({ parts }) => parts.some(({ kind }) => kind === 'audio'))) return null
    const effort = readEffort(body)
    const tools = readTools(body).map(({ name, description, parameters, strict }) => ({
      type: 'function',
      name,
      ...(description === null ? {} : { description }),
      parameters,
      strict,
    }))
    const wire = {
      model,
      input: [...system.map(text => ({ role: 'system', content: text })), ...turns.flatMap(itemsOf)],
      ...(tools.length > 0 ? { tools } : {}),
      ...formatOf(body),
      ...(effort === null ? {} : { reasoning: { effort } }),
    }
    return {
      path: '/responses/input_tokens',
      headers: { accept: 'application/json' },
      body: bodyOf(wire),
      dropped: [],
    }
  },
  field: 'input_tokens',
}

/** The texts and media of a turn are one message; calls and results are separate items. */
function itemsOf({ role, parts }: Turn): Fields[] {
  const content = parts.flatMap(part => contentOf(part, role))
  return [...parts.flatMap(itemOf), ...(content.length > 0 ? [{ role, content }] : [])]
}

function itemOf(part: Part): Fields[] {
  switch (part.kind) {
    case 'call':
      return [{ type: 'function_call', call_id: part.id, name: part.name, arguments: argumentsText(part.arguments) }]
    case 'result':
      return [{ type: 'function_call_output', call_id: part.id, output: part.text }]
    default:
      return []
  }
}

function contentOf(part: Part, role: Turn['role']): Fields[] {
  switch (part.kind) {
    case 'text':
      return [{ type: role === 'user' ? 'input_text' : 'output_text', text: part.text }]
    case 'image':
      return [{ type: 'input_image', image_url: urlOf(part.source) }]
    case 'file': {
      const { name, source } = part
      const file = source.kind === 'url' ? { file_url: source.url } : { file_data: urlOf(source) }
      return [{ type: 'input_file', ...(name === null ? {} : { filename: name }), ...file }]
    }
    default:
      return []
  }
}

function urlOf(source: Source): string {
  return source.kind === 'url' ? source.url : `data:${source.mediaType};base64,${source.base64}`
}

function formatOf(body: ChatRequest): Fields {
  const format = readResponseFormat(body)
  if (format.kind === 'text') return {}
  if (format.kind === 'json') return { text: { format: { type: 'json_object' } } }
  return { text: { format: { type: 'json_schema', name: format.name, schema: format.schema } } }
}
