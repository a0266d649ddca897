/** Runs before each test file. A module that several files share is loaded once, so the hooks of a file are set here. */
import { afterAll } from 'vitest'
import { AT_FILE_END } from './file-end.ts'

afterAll(async () => {
  for (const end of [...AT_FILE_END]) await end()
})
