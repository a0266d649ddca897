/** What stands for the variables of a configuration where nobody has set them: nothing is sent anywhere, so no secret is needed. */

type Environment = Readonly<Record<string, string | undefined>>

/** The environment in which every variable has a value: its own, or one that is made of its name. */
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

/** An address must look like one, or the configuration is refused. */
function standInFor(name: string): string {
  if (!/(^|_)(URL|URI|ENDPOINT)$/i.test(name)) return `stand-in-for-${name}`
  return `https://stand-in-for-${name.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}.example`
}
