/** `tollgate/plugin` outside of a gateway has a list of the contract's values, which is written by hand. */
import { expect, test } from 'vitest'
import * as contract from '#contract'
import { ROOT } from '../helpers/repository.ts'

test('the package has every value of the contract, and no other', async () => {
  const ofPackage = (await import(`${ROOT}/src/package/tollgate-plugin.js`)) as object
  expect(Object.keys(ofPackage).sort()).toEqual(Object.keys(contract).sort())
})
