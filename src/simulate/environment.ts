/** Stand-in values for unset variables of a configuration: nothing is sent, so no secret is needed. */

type Environment = Readonly<Record<string, string | undefined>>

/** An environment in which every variable has a value: its own, or one made from its name. */
export function standIns(env: Environment): Environment {
  const valueFor = (name: string) => env[name] ?? standInFor(name)
  return new Proxy(env, {
    get: (_target, name) => (typeof name === 'string' ? valueFor(name) : undefined),
    has: () => true,
    getOwnPropertyDescriptor: (_target, name) => ({
      configurable: true,
      enumerable: true,
      value: valueFor(String(name)),
    }),
  })
}

/** A URL must be valid, or the configuration is refused. */
function standInFor(name: string): string {
  if (!/(^|_)(URL|URI|ENDPOINT)$/i.test(name)) return `stand-in-for-${name}`
  return `https://stand-in-for-${name.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}.example`
}
