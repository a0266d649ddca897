/** What the schemas of the account API are written in. */

/** JSON Schema 2020-12. */
export type Schema = Readonly<Record<string, unknown>>
