/** Converts a deciding step to an equivalent middleware: for shadow, explain and replay. */
import type { StepInstance, StepMiddleware } from '#contract'

/** Takes the result of `create`. Undefined if it is neither a middleware nor an object with `handle` or `decide`. */
export function middlewareOf<Needs extends never>(
  made: StepMiddleware<Needs> | StepInstance<Needs>,
): StepMiddleware<Needs> | undefined {
  if (typeof made === 'function') return made
  if (made?.handle !== undefined) return typeof made.handle === 'function' ? made.handle : undefined
  if (typeof made?.decide !== 'function') return undefined
  return async (ctx, next) => {
    // The contract does not have `answered`: only the gateway's own handle does.
    const exchange: typeof ctx.exchange & { readonly answered?: boolean } = ctx.exchange
    // A step from npm may have set a status before it called `next()`.
    const wasAnswered = exchange.answered
    const kept: unknown = await made.decide(ctx)
    if (!wasAnswered && exchange.answered) return
    try {
      await next()
    } catch (error) {
      await made.after?.(ctx, exchange.outcome, kept, error)
      throw error
    }
    await made.after?.(ctx, exchange.outcome, kept, undefined)
  }
}
