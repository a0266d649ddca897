/** nginx with the configuration of src/deploy, in front of gateways on loopback ports. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { freePort } from './free-port.ts'
import { temporaryDirectory } from './gateway.ts'
import { findProgram, without } from './programs.ts'
import { ROOT } from './repository.ts'

export const WITHOUT_NGINX = without('nginx', 'nginx-light')

/** Starts nginx for the rest of the test, in front of the URLs of three gateways. Returns its own URL once it answers. */
export async function startNginx(gateways: readonly string[]): Promise<string> {
  const folder = await temporaryDirectory()
  await chmod(folder, 0o777)
  const port = await freePort()
  let text = await readFile(join(ROOT, 'src/deploy/nginx.conf'), 'utf8')
  for (const [index, url] of gateways.entries()) {
    text = text.replace(`tollgate-${index + 1}:8080`, new URL(url).host)
  }
  text = text.replace('listen 8080', `listen 127.0.0.1:${port}`)
  const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    name => `${name}_temp_path ${folder}/${name};`,
  )
  text = `daemon off; pid ${folder}/pid; error_log stderr;\n${text.replace('access_log off;', `access_log off; ${places.join(' ')}`)}`
  await writeFile(join(folder, 'nginx.conf'), text)
  const args = ['-c', join(folder, 'nginx.conf'), '-e', 'stderr', '-p', folder]
  const child: ChildProcess = spawn(findProgram('nginx')!, args, { stdio: ['ignore', 'inherit', 'inherit'] })
  onTestFinished(async () => {
    const ended = once(child, 'exit')
    if (child.kill('SIGTERM')) await ended
  })
  const url = `http://127.0.0.1:${port}`
  const status = () =>
    fetch(`${url}/livez`).then(
      ({ status }) => status,
      () => 0,
    )
  await expect.poll(status).toBe(200)
  return url
}
