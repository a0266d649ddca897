/** Changes to Koa's behaviour. */
import type Koa from 'koa'
import type { Context } from 'koa'

/**
 * Koa listens to every response for errors of its own writing, with four listeners per request. If the gateway has answered
 * (`ctx.respond` is false), Koa writes nothing and needs no listener. Other requests are handled by Koa.
 */
export function skipKoaAfterGatewayAnswers(app: Koa): void {
  const koa = app as unknown as { handleRequest(ctx: Context, run: (ctx: Context) => Promise<void>): Promise<void> }
  const handleByKoa = koa.handleRequest
  const respond = (ctx: Context): Promise<void> | undefined => {
    if (ctx.respond === false) return undefined
    const { statusCode } = ctx.res
    return handleByKoa.call(app, ctx, async () => {
      ctx.res.statusCode = statusCode
    })
  }
  const handle: typeof handleByKoa = (ctx, run) => {
    ctx.res.statusCode = 404
    return run(ctx).then(
      () => respond(ctx),
      error => ctx.onerror(error),
    )
  }
  koa.handleRequest = handle
}

/**
 * Throws if a step sets an answer after `next()`: the pump has already sent one. The runner names the step. The setters are on Koa's
 * response, because `ctx.body` and `ctx.status` forward to it.
 */
export function guardAnswerAfterNext(app: Koa): void {
  for (const [name, instead] of [
    ['body', 'use exchange.edit before it'],
    ['status', 'throw refuse(…) to refuse the answer'],
  ] as const) {
    const { get, set } = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(app.response) as object, name)!
    Object.defineProperty(app.response, name, {
      configurable: true,
      get: get!,
      set(this: Koa.Response, value: unknown) {
        const exchange = this.ctx['exchange'] as { sealed?: boolean } | undefined
        if (exchange?.sealed) throw new TypeError(`ctx.${name} after next() does nothing: ${instead}`)
        set!.call(this, value)
      },
    })
  }
}
