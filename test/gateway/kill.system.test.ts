/** Kills of a gateway under load, each on the store of the previous one (kill-suite.ts). */
import { countsOf } from '../helpers/counts.ts'
import { testKills } from './kill-suite.ts'

const counts = countsOf('kills')

testKills(counts(3, 100))
