/**
 * OpenAI's own schemas, as the corpus has them: the strict one for what is made here, and the one loosened to what
 * api.openai.com was seen to send.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'

/** The parts of a schema file that are used here. */
export type SchemaName =
  | 'CreateChatCompletionResponse'
  | 'CreateChatCompletionStreamResponse'
  | 'ErrorResponse'
  | 'ListModelsResponse'
  | 'Model'

/** What is wrong with a value, a line a mistake; empty when nothing is. */
export type Judge = (name: SchemaName, value: unknown) => string[]

export function openSchemas(corpusDir: string, which: 'strict' | 'observed'): Judge {
  const file = which === 'strict' ? 'openai-chat.schema.json' : 'openai-chat.observed.schema.json'
  const schema = JSON.parse(readFileSync(join(corpusDir, file), 'utf8')) as { readonly $id: string }
  // The files use keywords (format, deprecated) that say nothing about validity.
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false })
  ajv.addSchema(schema)
  return (name, value) => {
    const validate = ajv.getSchema(`${schema.$id}#/$defs/${name}`)
    if (!validate) throw new Error(`${file} has no ${name}`)
    if (validate(value)) return []
    return (validate.errors ?? []).map(({ instancePath, message }) => `${name}${instancePath} ${message}`)
  }
}
