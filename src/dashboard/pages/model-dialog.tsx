/** A model's details and prices; operators also see its costs. */
import type { VNode } from 'preact'
import type { ModelView } from '../../api/views.ts'
import { search } from '../lib/api.ts'
import { count } from '../lib/format.ts'
import type { ModelRow } from '../lib/model-list.ts'
import {
  type Case,
  caseKey,
  casesOf,
  caseText,
  listsOf,
  marginText,
  rateText,
  ruleFor,
  rulesOf,
  unitName,
} from '../lib/price-lines.ts'
import { Badge, ButtonLink, Code, Copy, Details, Dialog, Note, Table } from '../ui/index.ts'

interface ModelDialogProps {
  readonly row: ModelRow
  /** Whether a model has this id. */
  readonly has: (id: string) => boolean
  readonly onClose: () => void
}

export function ModelDialog({ row: { model, costs }, has, onClose }: ModelDialogProps): VNode {
  const { id, price, context, max_output, aliases } = model
  const rules = rulesOf(price)
  const below = costs?.below_cost.length ?? 0
  return (
    <Dialog wide title="Model" onClose={onClose}>
      <div class="stack">
        <Details
          items={[
            [
              'Id',
              <span class="row">
                <span class="mono">{id}</span>
                <Copy text={id} label={`Copy ${id}`} iconOnly variant="quiet" />
              </span>,
            ],
            aliases.length > 0 && ['Also called', aliases.join(', ')],
            ['Context', `${count(context)} tokens`],
            ['Max output tokens', count(max_output)],
            model.deprecation !== null && ['End', <End model={model} has={has} />],
            ['Price list', price === null ? 'none: the model is free' : listsOf(rules).join(', ')],
            costs !== null && ['Margin, of the price', marginText(costs)],
          ]}
        />
        {below > 0 && (
          <Note tone="warn" title="The price is below the cost">
            You pay the difference. Raise the price in <Code>gateway.yaml</Code>, or remove the target.
          </Note>
        )}
        {(price !== null || costs?.targets.some(({ cost }) => cost !== null)) && (
          <>
            <p class="small muted">Dollars for a million tokens, where no other unit is named.</p>
            <PriceTable model={model} costs={costs} />
          </>
        )}
        {(costs === null || (costs.public && costs.enabled)) && (
          <div class="row">
            <ButtonLink href={`/playground${search({ model: id })}`} icon="playground">
              Try it<span class="hidden">: {id}</span>
            </ButtonLink>
          </div>
        )}
      </div>
    </Dialog>
  )
}

/** The end of a model, and its successor. */
function End({ model: { deprecation }, has }: { readonly model: ModelView } & Pick<ModelDialogProps, 'has'>): VNode {
  const { date, successor } = deprecation!
  return (
    <>
      {date ?? 'soon; the provider has not published a date'}
      {successor !== null && (
        <>
          . Its successor is{' '}
          {has(successor) ? <a href={`/models${search({ model: successor })}`}>{successor}</a> : successor}
        </>
      )}
    </>
  )
}

/** With several price lists, each line names its own. */
function PriceTable({ model: { id, price }, costs }: Pick<ModelRow, 'model' | 'costs'>): VNode {
  const rules = rulesOf(price)
  const targets = costs?.targets.map(({ target, cost }) => ({ target, rules: cost && rulesOf(cost) })) ?? []
  const rows = casesOf([rules, ...targets.map(target => target.rules ?? [])]).map(each => ({
    id: caseKey(each),
    ...each,
  }))
  const below = new Set(costs?.below_cost.map(each => `${each.target} ${caseKey(each)}`))
  const lists = listsOf(rules)
  return (
    <Table
      caption={`Prices of ${id}`}
      columns={[
        { title: 'Unit', cell: (each: Case) => unitName(each.unit), below: (each: Case) => caseText(each) },
        {
          title: 'Price',
          number: true,
          cell: (each: Case) => rateText(ruleFor(rules, each)),
          below: (each: Case) => lists.length > 1 && ruleFor(rules, each)?.source,
        },
        ...(targets.length === 0
          ? []
          : [
              {
                title: 'Cost',
                number: true,
                cell: (each: Case) => (
                  <span class="stack-tight">
                    {targets.map(target => (
                      <span key={target.target}>
                        <span>{target.rules === null ? 'not known' : rateText(ruleFor(target.rules, each))}</span>{' '}
                        {below.has(`${target.target} ${caseKey(each)}`) && <Badge tone="warn">above the price</Badge>}
                        <span class="cell-sub model-target">{target.target}</span>
                      </span>
                    ))}
                  </span>
                ),
              },
            ]),
      ]}
      rows={rows}
    />
  )
}
