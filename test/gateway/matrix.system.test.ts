/** The failure matrix with the official SDK as the client; the full run has all cells: each fault in each dialect. */
import { isFull } from '../helpers/counts.ts'
import { allCells, moreCells } from './matrix-cells.ts'
import { testMatrix } from './matrix-suite.ts'
import { sdkClient } from './sdk-client.system.ts'

const isAll = isFull('clients')

testMatrix(isAll ? allCells() : moreCells(), sdkClient, isAll)
