/**
 * OpenAI's schemas from the corpus: the strict one for the gateway's own output, and one loosened to the observed output of
 * api.openai.com.
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

/** Returns the errors of a value, one per line; empty for a valid one. */
export type Judge = (name: SchemaName, value: unknown) => string[]

export function openSchemas(corpusDir: string, which: 'strict' | 'observed'): Judge {
  const file = which === 'strict' ? 'openai-chat.schema.json' : 'openai-chat.observed.schema.json'
  const schema = JSON.parse(readFileSync(join(corpusDir, file), 'utf8')) as { readonly $id: string }
  // The files use keywords (format, deprecated) that do not affect validity.
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false })
  ajv.addSchema(schema)
  return (name, value) => {
    const validate = ajv.getSchema(`${schema.$id}#/$defs/${name}`)
    if (!validate) throw new Error(`${file} has no ${name}`)
    if (validate(value)) return []
    return (validate.errors ?? []).map(({ instancePath, message }) => `${name}${instancePath} ${message}`)
  }
}
