/** Kills of a gateway under load, each on the store that the one before has left (kill-suite.ts). */
import { countsOf } from '../helpers/counts.ts'
import { testKills } from './kill-suite.ts'

const counts = countsOf('kills')

testKills(counts(3, 100))
