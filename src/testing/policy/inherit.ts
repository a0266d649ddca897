/** The request of a step under `then`: the request of the test, with the changes of the step. */
import type { RequestShape, StepShape, TestShape } from './schema.ts'

/** Members that are not inherited: number of requests, and the client's disconnect. */
const OWN = ['times', 'leaves_after'] as const

/**
 * A step with a path or a method is another request, which inherits only the caller. Headers are merged, and so are bodies that are
 * objects.
 */
export function inherited({ request: first = {} }: TestShape, step: StepShape): RequestShape {
  const { request = {} } = step
  const { key, claims, account, address } = first
  const isOther = request.path !== undefined || request.method !== undefined
  const from: RequestShape = isOther ? defined({ key, claims, account, address }) : withoutOwn(first)
  const { headers, body } = from
  return {
    ...from,
    ...request,
    ...(headers && request.headers ? { headers: { ...headers, ...request.headers } } : {}),
    ...(isMap(body) && isMap(request.body) ? { body: { ...body, ...request.body } } : {}),
  }
}

function withoutOwn(request: RequestShape): RequestShape {
  return Object.fromEntries(Object.entries(request).filter(([name]) => !(OWN as readonly string[]).includes(name)))
}

function defined(parts: object): RequestShape {
  return Object.fromEntries(Object.entries(parts).filter(([, value]) => value !== undefined))
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
