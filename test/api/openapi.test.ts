/** The API description: it is valid OpenAPI 3.1 and agrees with the server. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, test } from 'vitest'
import { ERRORS } from '#contract'
import { describeApi } from '../../src/api/openapi.ts'
import { ROUTES } from '../../src/api/routes.ts'
import { SCHEMAS } from '../../src/api/schemas.ts'
import { FORMATS } from '../../src/api/validate.ts'
import { startRig } from './rig.ts'

interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly tags: readonly string[]
  readonly security: readonly Record<string, unknown>[]
  readonly parameters?: readonly {
    readonly name: string
    readonly in: string
    readonly required: boolean
    readonly schema: object
  }[]
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: object }>> }
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: object }>>
}

interface Document {
  readonly openapi: string
  readonly info: { readonly title: string; readonly version: string }
  readonly tags: readonly { readonly name: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, object>>
    readonly securitySchemes: Readonly<Record<string, unknown>>
  }
}

const document = JSON.parse(JSON.stringify(describeApi(ROUTES, '1.2.3'))) as Document
const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ name: `${method} ${path}`, path, method, operation })),
)

describe('the document', () => {
  test('has version 3.1 and the required top-level fields', () => {
    expect(document.openapi).toBe('3.1.0')
    expect(document.info).toMatchObject({ title: expect.any(String), version: '1.2.3' })
    expect(Object.keys(document).sort()).toEqual(
      ['components', 'info', 'jsonSchemaDialect', 'openapi', 'paths', 'tags'].sort(),
    )
  })

  test('has every route once, with its own operation id', () => {
    expect(operations.map(({ name }) => name).sort()).toEqual(
      ROUTES.map(({ method, path }) => `${method.toLowerCase()} ${path}`).sort(),
    )
    const ids = operations.map(({ operation }) => operation.operationId)
    expect(new Set(ids).size).toBe(ids.length)
    expect(ids.filter(id => !/^[a-z]+(_\w+)+$/.test(id))).toEqual([])
  })

  test('resolves every $ref and uses every schema', () => {
    const refs = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(match => match[1]!)
    expect(refs.length).toBeGreaterThan(100)
    const known = Object.keys(document.components.schemas).map(name => `#/components/schemas/${name}`)
    expect(refs.filter(ref => !known.includes(ref))).toEqual([])
    expect(known.filter(name => !refs.includes(name))).toEqual([])
  })

  test('declares the path parameters, the tags and the security schemes', () => {
    const tags = document.tags.map(({ name }) => name)
    const schemes = Object.keys(document.components.securitySchemes)
    for (const { name, path, operation } of operations) {
      const places = [...path.matchAll(/\{(\w+)\}/g)].map(match => match[1])
      const declared = (operation.parameters ?? []).filter(each => each.in === 'path')
      expect(
        declared.map(each => each.name),
        name,
      ).toEqual(places)
      expect(declared.every(({ required }) => required)).toBe(true)
      const names = (operation.parameters ?? []).map(each => `${each.in} ${each.name}`)
      expect(new Set(names).size, name).toBe(names.length)
      expect(
        operation.tags.every(tag => tags.includes(tag)),
        name,
      ).toBe(true)
      expect(
        operation.security.flatMap(each => Object.keys(each)).every(each => schemes.includes(each)),
        name,
      ).toBe(true)
      expect(operation.summary, name).toMatch(/^[A-Z].*\.$/)
    }
    expect(tags.filter(tag => !operations.some(({ operation }) => operation.tags.includes(tag)))).toEqual([])
  })

  test('describes the success and error answers of each operation', () => {
    for (const { name, method, operation } of operations) {
      const statuses = Object.keys(operation.responses)
      expect(
        statuses.filter(status => status.startsWith('2')),
        name,
      ).toHaveLength(1)
      expect(
        statuses.some(status => status.startsWith('4')),
        name,
      ).toBe(true)
      for (const { description } of Object.values(operation.responses)) expect(description).not.toBe('')
      expect(operation.requestBody !== undefined, name).toBe(['post', 'put', 'patch'].includes(method))
    }
  })

  test('has schemas that compile, for answers and inputs', () => {
    const ajv = new Ajv2020({ strict: true, allowUnionTypes: true })
    for (const name of Object.keys(FORMATS)) ajv.addFormat(name, true)
    ajv.addVocabulary(['components'])
    ajv.addSchema({ $id: 'api', components: document.components } as object)
    for (const name of Object.keys(document.components.schemas)) {
      expect(ajv.getSchema(`api#/components/schemas/${name}`), name).toBeTypeOf('function')
    }
    const sent = operations.flatMap(({ operation }) => [
      ...(operation.parameters ?? []).map(({ schema }) => schema),
      ...Object.values(operation.requestBody?.content ?? {}).map(({ schema }) => schema),
    ])
    expect(sent.length).toBeGreaterThan(40)
    for (const schema of sent) expect(ajv.compile(schema)).toBeTypeOf('function')
  })

  test('allows no unnamed field in a body, query or path', () => {
    const open = ROUTES.flatMap(({ method, path, params, query, body }) =>
      [params, query, body].some(schema => schema !== undefined && !closed(schema)) ? [`${method} ${path}`] : [],
    )
    expect(open).toEqual([])
  })

  test('describes every input field', () => {
    const silent = ROUTES.flatMap(({ method, path, params, query, body }) =>
      [params, query, body].flatMap(schema =>
        Object.entries((schema?.['properties'] ?? {}) as Record<string, { description?: string }>)
          .filter(([, { description }]) => !description)
          .map(([field]) => `${method} ${path}: ${field}`),
      ),
    )
    expect(silent).toEqual([])
  })

  test('names existing error codes only', () => {
    const unknown = ROUTES.flatMap(({ errors = [] }) => errors.filter(code => !Object.hasOwn(ERRORS, code)))
    expect(unknown).toEqual([])
  })

  test('is public, the same on both listeners, and describes its own route', async () => {
    await using rig = await startRig()
    const [here, there] = [
      await rig.browser().get<Document>('/api/openapi.json'),
      await rig.machine().get('/api/openapi.json'),
    ]
    expect(here.status).toBe(200)
    expect(here.headers['content-type']).toBe('application/json; charset=utf-8')
    expect(there.body).toEqual(here.body)
    expect(Object.keys(here.body.paths).sort()).toEqual([...Object.keys(document.paths), '/api/openapi.json'].sort())
    expect(here.body.info.version).toBe(rig.parts.version)
  })
})

test.each(Object.keys(SCHEMAS))('%s requires all its properties and allows no others', name => {
  const schema = SCHEMAS[name as keyof typeof SCHEMAS] as unknown as ObjectSchema
  expect([...schema.required].sort()).toEqual(Object.keys(schema.properties).sort())
  expect(schema.additionalProperties).toBe(false)
})

interface ObjectSchema {
  readonly properties: Readonly<Record<string, Record<string, unknown>>>
  readonly required: readonly string[]
  readonly additionalProperties: boolean
}

function closed(schema: Readonly<Record<string, unknown>>): boolean {
  return schema['type'] === 'object' && schema['additionalProperties'] === false
}
