/** The vendors of a configuration's providers. */
import type { Configuration } from '../../config/configuration.ts'
import { type Vendor, vendorOf } from '../../providers/dialects/vendors.ts'

/** Each once, in the order of the providers. */
export function vendorsOf({ providers }: Pick<Configuration, 'providers'>): Vendor[] {
  return [...new Set([...providers.values()].flatMap(provider => vendorOf(provider) ?? []))]
}
