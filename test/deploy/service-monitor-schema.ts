/**
 * A schema of ServiceMonitor (monitoring.coreos.com/v1) with the fields that a chart for one application may need. Kubernetes
 * itself has none. Other fields are refused, as kubeconform does with `-strict`.
 */
const object = (properties: object, required: readonly string[] = []) => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
})
const text = { type: 'string' }
const texts = { type: 'object', additionalProperties: text }
const list = (items: object) => ({ type: 'array', items })
const duration = {
  type: 'string',
  pattern: '^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$',
}
const secretKey = object({ name: text, key: text, optional: { type: 'boolean' } }, ['key'])
const expression = object({ key: text, operator: text, values: list(text) }, ['key', 'operator'])

const endpoint = object({
  port: text,
  targetPort: { type: ['integer', 'string'] },
  path: text,
  scheme: { enum: ['http', 'https', 'HTTP', 'HTTPS'] },
  params: { type: 'object', additionalProperties: list(text) },
  interval: duration,
  scrapeTimeout: duration,
  authorization: object({ type: text, credentials: secretKey }),
  honorLabels: { type: 'boolean' },
})

const monitor = object(
  {
    apiVersion: { const: 'monitoring.coreos.com/v1' },
    kind: { const: 'ServiceMonitor' },
    metadata: object({ name: text, namespace: text, labels: texts, annotations: texts }, ['name']),
    spec: object(
      {
        endpoints: list(endpoint),
        jobLabel: text,
        namespaceSelector: object({ any: { type: 'boolean' }, matchNames: list(text) }),
        sampleLimit: { type: 'integer', minimum: 0 },
        selector: object({ matchLabels: texts, matchExpressions: list(expression) }),
        targetLabels: list(text),
      },
      ['endpoints', 'selector'],
    ),
  },
  ['apiVersion', 'kind', 'metadata', 'spec'],
)

export const SERVICE_MONITOR_SCHEMA = { $schema: 'http://json-schema.org/draft-07/schema#', ...monitor }
