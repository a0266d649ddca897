/** A JSON Web Key Set (RFC 7517, 5). */
export interface Jwks {
  readonly keys: readonly Readonly<Record<string, unknown>>[]
}
