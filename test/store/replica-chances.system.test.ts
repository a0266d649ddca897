/** Three processes with one database under random faults (replica-play.ts). */
import { expect, test } from 'vitest'
import { countsOf } from '../helpers/counts.ts'
import { onPostgres } from './helpers.ts'
import { Play } from './replica-play.ts'

const counts = countsOf('replicas')

const STEPS = 60

/** Faults in the schema, which break the guarantees. The random play must find them. */
const PLANTED: readonly (readonly [name: string, sql: string])[] = [
  [
    'a replica that was taken over continues to write',
    'CREATE OR REPLACE FUNCTION fence(replica_id BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$ BEGIN END $$',
  ],
  [
    'holds do not name their replica',
    `CREATE FUNCTION of_none() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.replica := NULL; RETURN new; END $$;
     CREATE TRIGGER of_none BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION of_none()`,
  ],
  [
    'recovery starts too late',
    `CREATE FUNCTION too_late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.open_from := '~'; RETURN new; END $$;
     CREATE TRIGGER too_late BEFORE INSERT OR UPDATE ON replica FOR EACH ROW EXECUTE FUNCTION too_late()`,
  ],
  [
    'a hold does not check the credit',
    `ALTER TABLE balance DROP CONSTRAINT balance_check;
     CREATE FUNCTION plenty() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.posted := new.posted + 1; RETURN new; END $$;
     CREATE TRIGGER plenty BEFORE UPDATE ON balance FOR EACH ROW WHEN (new.held > old.held) EXECUTE FUNCTION plenty()`,
  ],
]

onPostgres(() => {
  const seeds = process.env['SEED'] === undefined ? [] : [Number(process.env['SEED'])]
  const first = Math.floor(Math.random() * 2 ** 31)
  while (seeds.length === 0 || (seeds.length < counts(8, 400) && process.env['SEED'] === undefined))
    seeds.push(first + seeds.length)

  test.each(PLANTED)('a planted bug is found: %s', async (_, sql) => {
    let found: unknown
    for (let seed = first; found === undefined && seed < first + 20; seed++) {
      const play = new Play(seed)
      await play.start(sql)
      try {
        for (let step = 0; step < STEPS; step++) await play.step()
        await play.end(1500)
        play.check()
      } catch (error) {
        found = error
      }
      await Promise.all(play.waiting)
    }
    expect(found).toBeDefined()
  })

  test.each(seeds)('three replicas, with the seed %i (SEED repeats it)', async seed => {
    const play = new Play(seed)
    await play.start()
    for (let step = 0; step < STEPS; step++) await play.step()
    await play.end()
    play.check()
  })
})
