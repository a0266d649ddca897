/** One kill of a gateway under load (kill-suite.ts). */
import { testKills } from './kill-suite.ts'

testKills(1)
