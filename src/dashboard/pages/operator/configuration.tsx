/** The running configuration, and the problems of the files on disk. The page edits no files. */
import type { VNode } from 'preact'
import { useMemo } from 'preact/hooks'
import type { ConfigurationView, ProblemView } from '../../../api/views.ts'
import { plural } from '../../lib/format.ts'
import { useResource } from '../../lib/use-resource.ts'
import { Badge, Button, Card, Code, Empty, Icon, Loaded, Note, Page, Tabs, Time } from '../../ui/index.ts'
import { type Listing, listingsOf, placeOf } from './listing.ts'
import '../../styles/operator.css'

/** `/operator/configuration` */
export default function Configuration(): VNode {
  const resource = useResource<ConfigurationView>('operator/configuration')
  return (
    <Page
      title="Configuration"
      lead={
        resource.data ? (
          <>
            The running configuration, loaded <Time value={resource.data.loaded_at} />. Secrets are hidden.
          </>
        ) : (
          'The running configuration. Secrets are hidden.'
        )
      }
      actions={
        <Button icon="reload" onClick={resource.reload} busy={resource.loading && resource.data !== undefined}>
          Check again
        </Button>
      }
    >
      <Loaded resource={resource} title="Failed to load the configuration" lines={10}>
        {configuration => (
          <>
            <State configuration={configuration} />
            <Routes routes={configuration.routes} />
            <Files configuration={configuration} />
          </>
        )}
      </Loaded>
    </Page>
  )
}

function State({ configuration: { files, problems } }: { readonly configuration: ConfigurationView }): VNode {
  const changed = files.filter(file => file.changed)
  return (
    <>
      {changed.length > 0 && (
        <Note
          tone={problems.length > 0 ? 'bad' : 'warn'}
          title={`${plural(changed.length, 'loaded file has', 'loaded files have')} changed on disk`}
        >
          {changed.map(file => file.path).join(', ')}. The gateway still runs the loaded files, listed below.{' '}
          {problems.length > 0
            ? 'It cannot load the files on disk.'
            : 'A reload follows a change at once. If this notice stays, the change needs a restart.'}
        </Note>
      )}
      {problems.length > 0 ? (
        <Card title={plural(problems.length, 'problem')} hint="The result of tollgate check for the files on disk.">
          <ol class="stack">
            {problems.map((problem, index) => (
              <Problem key={index} problem={problem} />
            ))}
          </ol>
        </Card>
      ) : (
        <Note tone="good" title="No problems">
          <Code>tollgate check</Code> finds no problems in the files on disk.
        </Note>
      )}
    </>
  )
}

function Problem({ problem }: { readonly problem: ProblemView }): VNode {
  return (
    <li class="note tone-bad">
      <Icon name="error" />
      <div class="stack-tight grow">
        <code class="small">{placeOf(problem)}</code>
        <p class="strong">{problem.message}</p>
        {problem.suggestion !== null && <p class="muted">{problem.suggestion}</p>}
      </div>
    </li>
  )
}

function Routes({ routes }: Pick<ConfigurationView, 'routes'>): VNode {
  return (
    <Card title="Routes" hint="The steps of each route run from top to bottom.">
      {routes.length === 0 ? (
        <Empty icon="configuration" title="No routes">
          Add one under <Code>routes</Code> in gateway.yaml, with a path and a policy.
        </Empty>
      ) : (
        <ul class="operator-routes">
          {routes.map(route => (
            <li key={route.path} class="operator-route">
              <header>
                <h3 class="mono">{route.path}</h3>
                <p class="small muted">
                  {route.kind}, policy {route.policy}
                </p>
              </header>
              <Steps steps={route.steps} />
            </li>
          ))}
        </ul>
      )}
    </Card>
  )
}

function Steps({ steps }: Pick<ConfigurationView['routes'][number], 'steps'>): VNode {
  if (steps.length === 0) return <p class="muted">No steps.</p>
  return (
    <ol class="operator-steps">
      {steps.map(step => (
        <li key={step.id} class={step.mode === 'off' ? 'operator-step muted' : 'operator-step'}>
          <span class="strong">{step.id}</span>
          {step.use !== step.id && <span class="small muted">uses {step.use}</span>}
          {step.mode !== 'enforce' && <Badge tone={step.mode === 'off' ? 'plain' : 'info'}>{step.mode}</Badge>}
          {step.when !== null && (
            <span class="small">
              <span class="muted">when </span>
              <Code>{step.when}</Code>
            </span>
          )}
        </li>
      ))}
    </ol>
  )
}

function Files({ configuration }: { readonly configuration: ConfigurationView }): VNode {
  const { files, problems } = configuration
  const listings = useMemo(() => listingsOf(files, problems), [files, problems])
  return (
    <Card title="Files">
      {listings.length === 0 ? (
        <Empty icon="configuration" title="No files">
          The gateway runs without configuration files.
        </Empty>
      ) : (
        <Tabs
          label="Files"
          tabs={listings.map(listing => ({
            id: listing.path,
            title: titleOf(listing),
            content: () => <File listing={listing} />,
          }))}
        />
      )}
    </Card>
  )
}

function titleOf({ path, changed, lines, beyond }: Listing): string {
  const problems = lines.reduce((sum, line) => sum + line.problems.length, beyond.length)
  const words = [changed ? 'changed' : '', problems > 0 ? plural(problems, 'problem') : ''].filter(Boolean)
  return words.length === 0 ? path : `${path} (${words.join(', ')})`
}

function File({ listing }: { readonly listing: Listing }): VNode {
  return (
    <div class="stack">
      {listing.changed && (
        <p class="muted">
          This is the running text. The file on disk has changed; its problems are marked here at the same line numbers.
        </p>
      )}
      {listing.beyond.length > 0 && (
        <ol class="stack">
          {listing.beyond.map((problem, index) => (
            <Problem key={index} problem={problem} />
          ))}
        </ol>
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard */}
      <section class="code-block operator-listing" aria-label={`Text of ${listing.path}`} tabIndex={0}>
        <ol>
          {listing.lines.map(line => (
            <li
              key={line.number}
              class={line.problems.length > 0 ? 'operator-line operator-line-bad' : 'operator-line'}
            >
              <span class="operator-number" aria-hidden="true">
                {line.number}
              </span>
              <code>{line.text}</code>
              {line.problems.map((problem, index) => (
                <p key={index} class="operator-line-problem">
                  <Icon name="error" />
                  <span class="hidden">Problem: </span>
                  {listing.changed && 'On disk: '}
                  {problem.message} {problem.suggestion}
                </p>
              ))}
            </li>
          ))}
        </ol>
      </section>
    </div>
  )
}
