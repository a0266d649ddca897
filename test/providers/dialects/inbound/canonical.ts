/** The schema of chat completions that the `schema` step uses. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import { chatCompletionsSchema } from '../../../../plugins/schema/chat-completions.ts'

const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, discriminator: true })
ajv.addKeyword({ keyword: 'longest', type: 'string', schemaType: 'number' })
const isCanonical = ajv.compile(chatCompletionsSchema('refuse'))

/** The schema's error for a body, with its place; null for a valid one. */
export function complaintAbout(body: unknown): string | null {
  if (isCanonical(body)) return null
  const { instancePath, params, message } = isCanonical.errors![0]!
  const { additionalProperty: unknown } = params
  return `${instancePath}${unknown === undefined ? '' : `/${unknown}`} ${message}`
}
