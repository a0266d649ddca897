/** SQL of PostgreSQL that differs from SQLite's. */
import type { Dialect } from '../sql-dialect.ts'

export const POSTGRES: Dialect = {
  engine: 'postgres',
  begin: 'BEGIN',
  snapshot: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
  like: 'ILIKE',
  total: 'sum',
  // The columns have the collation "C", so ILIKE and lower() fold a to z only.
  only: table => `ONLY ${table}`,
  folded: text => `lower(${text})`,
  // As an array, because IN joins without a row estimate, and the server would read the whole table.
  isListed: (text, json) => `${text} = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(${json} AS JSONB))))`,
  // A column of the type JSON takes nothing else.
  isJson: () => 'TRUE',
}
