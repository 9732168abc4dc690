// What each of the JavaScript clients is asked to do: the scenarios of ../scenario, in their
// order.
//
// A program gives its client to main, and takes
//
//   run              everything, on topics of the client's own; a line for each scenario
//   write            a sample with each codec, to the topic that all clients share
//   read CLIENT …    what these clients have written there; a line for each of them
//   secure FILE      a little, in each of the ways to get in that the file has
//   steady FILE DIR  one record after the other, in each of them, until it is told to stop
//
// A client is an object with the methods that are called here; what it does not have is in
// its skip, with the reason. Its code method gives Kafka's code of an error.

import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { isDeepStrictEqual, inspect } from 'node:util'

export const codecs = ['none', 'gzip', 'snappy', 'lz4', 'zstd']
export const latest = -1
export const earliest = -2
export const noMore = 200 // milliseconds for which a fetch looks for what should not be there
export const transactions = [
  'transaction commit', 'transaction abort', 'read committed', 'read uncommitted', 'transaction offsets', 'transaction fenced',
]

const sampleSize = 10
const sampleTime = 1_700_000_000_000
const patience = 60_000
const groupPartitions = 4
const each = 10

export const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

// refusal is an error with a code of Kafka's.
export function refusal (code, message) {
  return Object.assign(new Error(message), { kafka: code })
}

// A record is { key, value, headers, time } with Buffers or null, pairs of name and Buffer, and
// milliseconds; what is read has a partition and an offset, too.
function sample (client, codec) {
  const out = []
  for (let i = 0; i < sampleSize; i++) {
    const name = `${client}/${codec}/${i}`
    const r = {
      key: Buffer.from(name),
      value: Buffer.from(`${name};`.repeat(i * 40)),
      headers: [
        ['client', Buffer.from(client)], ['codec', Buffer.from(codec)], ['bytes', Buffer.from([0, 0xff, 0xfe, 0x80])], ['empty', Buffer.alloc(0)],
      ],
      time: sampleTime + i * 1000,
    }
    switch (i) {
      case 0: r.value = null; break
      case 1: r.value = Buffer.alloc(0); break
      case 2: r.value = Buffer.from([...Array(256).keys()]); break
      case 3: r.key = null; break
      case 4: r.key = Buffer.alloc(0); break
      case 5: r.headers.splice(1, 0, ['client', Buffer.from('again')]); break
      case 6: r.headers = []; break
    }
    if (client === 'rskafka') { // to which headers are a map in order
      r.headers = [...new Map(r.headers)].sort(([a], [b]) => (a < b ? -1 : 1))
    }
    out.push(r)
  }
  return out
}

function plain (name, first, n) {
  return Array.from({ length: n }, (_, i) => ({
    key: Buffer.from(`${first + i}`), value: Buffer.from(`${name} ${first + i}`), headers: [], time: sampleTime + first + i,
  }))
}

function check (what, got, want) {
  if (!isDeepStrictEqual(got, want)) throw new Error(`${what}: ${short(got)}, want ${short(want)}`)
}

function short (v) {
  const s = inspect(v, { breakLength: Infinity })
  return s.length < 100 ? s : `${s.slice(0, 100)}…`
}

// eventually tries again: what one broker has done, another may show a moment later.
async function eventually (f) {
  for (const deadline = Date.now() + patience; ;) {
    try {
      return await f()
    } catch (e) {
      if (Date.now() > deadline) throw e
    }
    await sleep(50)
  }
}

class Run {
  constructor (client) {
    this.c = client
    this.failed = false
    this.prefix = process.env.T || client.name
  }

  topic (of) { return `${this.prefix}-${of}` }

  // together runs chains beside one another, and tells in their order what became of them.
  async together (...chains) {
    const lines = chains.map(async chain => {
      const out = []
      for (const [name, f] of chain) out.push(await this.tell(name, f))
      return out
    })
    for (const out of lines) {
      for (const line of await out) {
        console.log(line)
        this.failed ||= line.startsWith('fail')
      }
    }
  }

  async tell (name, f) {
    if (this.c.skip[name]) return `skip ${name}: ${this.c.skip[name]}`
    const began = Date.now()
    try {
      await f()
      return `ok ${name}`
    } catch (e) {
      console.error(e)
      return `fail ${name}: ${e.message}`
    } finally {
      console.error(`${((Date.now() - began) / 1000).toFixed(2).padStart(6)} s  ${name}`)
    }
  }

  // create makes a topic that keeps what it is given, however old, and waits until it is seen.
  async create (of, partitions, configs = {}) {
    const topic = this.topic(of)
    await this.c.createTopic(topic, partitions, { 'retention.ms': '-1', ...configs })
    await eventually(async () => check('partitions', await this.c.partitions(topic), partitions))
    return topic
  }

  async refused (codes, f) {
    try {
      await f()
    } catch (e) {
      const code = e.kafka ?? this.c.code(e)
      if (codes.includes(code)) return
      throw new Error(`code ${code}, want ${codes}`, { cause: e })
    }
    throw new Error(`not refused, want code ${codes}`)
  }

  same (got, want) {
    check('how many', got.length, want.length)
    want.forEach((w, i) => this.sameRecord(got[i], w))
  }

  sameRecord (got, want) {
    for (const field of ['key', 'value', 'headers', 'time']) {
      let w = want[field]
      if (this.c.nullIsEmpty && w?.length === 0 && field !== 'headers') w = got[field] === null ? null : w
      check(`offset ${got.offset}: ${field}`, got[field], w)
    }
  }

  // Data.

  topics () {
    return [
      ['create topic', async () => {
        await this.create('data', codecs.length)
        await this.create('more', 3)
      }],
      ['create topic again', () => this.refused([36], () => this.create('data', codecs.length))],
    ]
  }

  async roundTrip (topic, partition, codec, records, idempotent = false) {
    await this.c.produce(topic, partition, codec, records, idempotent)
    this.same(await this.c.fetch(topic, partition, records.length, false), records)
  }

  data () {
    const data = this.topic('data')
    const more = this.topic('more')
    return [
      ...codecs.map((codec, i) => [[`produce ${codec}`, () => this.roundTrip(data, i, codec, sample(this.c.name, codec))]]),
      [['idempotent', () => this.roundTrip(more, 0, 'none', plain('idempotent', 0, 100), true)]],
      [['large record', () => this.roundTrip(more, 1, 'none', [{ ...plain('large', 0, 1)[0], value: randomBytes(900_000) }])]],
      [['too large record', async () => {
        const small = await this.create('small', 1, { 'max.message.bytes': '1000' })
        const record = { ...plain('large', 0, 1)[0], value: randomBytes(2000) }
        await this.refused([10], () => this.c.produce(small, 0, 'none', [record], false))
        await this.roundTrip(small, 0, 'none', plain('small', 0, 1))
      }]],
      [['empty topic', async () => {
        this.same(await this.c.fetch(more, 2, 0, false), [])
        await this.offsetIs(more, 2, earliest, 0)
        await this.offsetIs(more, 2, latest, 0)
      }]],
    ]
  }

  async offsetIs (topic, partition, at, want) {
    check(`offset at ${at}`, await this.c.offset(topic, partition, at), want)
  }

  // Groups.

  groups () {
    return [
      [['group classic', () => this.group('classic', false)]],
      [['group static', () => this.static('static')]],
      [['group consumer', () => this.group('consumer', true)]],
    ]
  }

  // group has two members share a topic, one leave, and the group go on later where it was.
  async group (of, consumer) {
    const topic = await this.create(of, groupPartitions)
    await this.fill(topic, 0)
    const m = { group: this.topic(`group-${of}`), topic, consumer }
    const a = await this.c.join(m)
    await this.take(0, a)
    if (this.c.groupType) check('type', await this.c.groupType(m.group), consumer ? 'consumer' : 'classic')
    const b = await this.c.join(m)
    await this.shared(a, b)
    await this.settle(a, b)
    await this.fill(topic, 1)
    await this.take(1, a, b)
    await b.close()
    await this.until('the other has all', () => a.assigned().length === groupPartitions, a)
    await a.close()
    await this.fill(topic, 2)
    const c = await this.c.join(m)
    await this.take(2, c)
    await c.close()
  }

  // static has a static member restart: it gets the same, and nobody else notices.
  async static (of) {
    const topic = await this.create(of, groupPartitions)
    const group = this.topic(`group-${of}`)
    const a = await this.c.join({ group, topic, instance: 'a' })
    let b = await this.c.join({ group, topic, instance: 'b' })
    await this.shared(a, b)
    await this.settle(a, b)
    const had = b.assigned()
    const count = a.rebalances()
    await b.close()
    b = await this.c.join({ group, topic, instance: 'b' })
    await this.until('the member is back', () => isDeepStrictEqual(b.assigned(), had), b, a)
    await this.fill(topic, 0)
    await this.take(0, a, b)
    check('rebalances of the other', a.rebalances(), count)
    await a.close()
    await b.close()
  }

  async fill (topic, turn) {
    for (let p = 0; p < groupPartitions; p++) {
      await this.c.produce(topic, p, 'none', plain('group', turn * each, each), false)
    }
  }

  // take has the members get what fill wrote in a turn, all of it and each once, and commit.
  async take (turn, ...members) {
    const got = new Set()
    for (const deadline = Date.now() + patience; got.size < groupPartitions * each;) {
      if (Date.now() > deadline) throw new Error(`${got.size} records, want ${groupPartitions * each}`)
      await sleep(20)
      for (const m of members) {
        for (const r of m.poll()) {
          this.sameRecord(r, plain('group', r.offset, 1)[0])
          check(`turn of record ${r.offset} of partition ${r.partition}`, Math.floor(r.offset / each), turn)
          const at = `${r.partition}/${r.offset}`
          if (got.has(at)) throw new Error(`record ${at} came twice`)
          got.add(at)
        }
      }
    }
    for (const m of members) await m.commit()
  }

  async shared (a, b) {
    await this.until('each has half', () => {
      const all = [...a.assigned(), ...b.assigned()].sort()
      return a.assigned().length === b.assigned().length && isDeepStrictEqual(all, [0, 1, 2, 3])
    }, a, b)
  }

  // settle waits until the members have had no rebalance for a while, which is longer than a
  // fetch may be under way: some clients hand out what comes of one for what they had.
  async settle (...members) {
    for (let quiet, now; !isDeepStrictEqual(quiet, now = members.map(m => m.rebalances()));) {
      quiet = now
      const end = Date.now() + 500
      await this.until('a while has passed', () => Date.now() > end, ...members)
    }
  }

  async until (what, cond, ...members) {
    for (const deadline = Date.now() + patience; !cond();) {
      if (Date.now() > deadline) throw new Error(`not in time: ${what}; there is ${short(members.map(m => m.assigned()))}`)
      await sleep(20)
      for (const m of members) {
        for (const r of m.poll()) throw new Error(`a record that nobody wrote: ${r.offset} of partition ${r.partition}`)
      }
    }
  }

  // Administration.

  admin () {
    const data = this.topic('data')
    const more = this.topic('more')
    const group = this.topic('group-classic')
    const topic = this.topic('classic')
    const allRead = { 0: 3 * each, 1: 3 * each, 2: 3 * each, 3: 3 * each }
    const configIs = async (topic, name, value, set) => check(name, await this.c.config(topic, name), [value, set])
    const committedIs = async want => check('offsets', await this.c.committed(group, topic), want)
    const { 3: _, ...withoutLast } = { ...allRead, 0: 7 }
    return [
      ['list offsets', async () => {
        await this.offsetIs(data, 0, earliest, 0)
        await this.offsetIs(data, 0, latest, sampleSize)
        await this.offsetIs(data, 0, sampleTime + 3000, 3)
        await this.offsetIs(data, 0, sampleTime + 3001, 4)
      }],
      ['describe configs', async () => {
        await configIs(data, 'retention.ms', '-1', true)
        await configIs(data, 'cleanup.policy', 'delete', false)
      }],
      ['alter configs', async () => {
        await this.c.setConfig(more, 'segment.bytes', '1048576')
        await eventually(() => configIs(more, 'segment.bytes', '1048576', true))
      }],
      ['alter configs to nonsense', async () => {
        await this.refused([40], () => this.c.setConfig(more, 'segment.bytes', 'many'))
        await eventually(() => configIs(more, 'segment.bytes', '1048576', true))
      }],
      ['create partitions', async () => {
        await this.c.addPartitions(more, 5)
        await eventually(async () => check('partitions', await this.c.partitions(more), 5))
        // Another broker may show fewer still, which some clients do not ask again about.
        await eventually(() => this.c.produce(more, 4, 'none', plain('added', 0, 5), false))
        this.same(await this.c.fetch(more, 4, 5, false), plain('added', 0, 5))
      }],
      ['create partitions that are fewer', () => this.refused([37], () => this.c.addPartitions(more, 2))],
      ['delete records', async () => {
        await this.c.deleteBefore(data, 0, 4)
        await this.offsetIs(data, 0, earliest, 4)
      }],
      ['list groups', async () => check('is listed', (await this.c.groups()).includes(group), true)],
      ['describe group', async () => check('state', await this.c.groupState(group), ['Empty', 0])],
      ['describe group with members', async () => {
        const busy = this.topic('group-busy')
        const m = await this.c.join({ group: busy, topic })
        for (const deadline = Date.now() + patience; m.assigned().length < groupPartitions && Date.now() < deadline; m.poll()) await sleep(20)
        check('state', await this.c.groupState(busy), ['Stable', 1])
        if (!this.c.skip['delete group']) await this.refused([68], () => this.c.deleteGroup(busy))
        await m.close()
      }],
      ['group offsets', () => committedIs(allRead)],
      ['alter group offsets', async () => {
        await this.c.setCommitted(group, topic, { 0: 7 })
        await committedIs({ ...allRead, 0: 7 })
      }],
      ['delete group offsets', async () => {
        await this.c.deleteOffset(group, topic, 3)
        await committedIs(withoutLast)
      }],
      ['delete group', () => this.c.deleteGroup(group)],
      ['delete group again', () => this.refused([69], () => this.c.deleteGroup(group))],
      ['delete topic', async () => {
        await this.c.deleteTopic(topic)
        await eventually(() => this.refused([3], () => this.c.partitions(topic)))
      }],
      ['delete topic again', () => this.refused([3], () => this.c.deleteTopic(topic))],
    ]
  }

  // Transactions.

  transactions () {
    const topic = this.topic('txns')
    const id = this.topic('txn')
    const group = this.topic('group-txn')
    const transact = async (commit, records) => {
      const t = await this.c.transactor(id)
      try {
        await t.begin()
        await t.produce(topic, 0, records)
        await t.end(commit)
      } finally {
        await t.close()
      }
    }
    return [
      ['transaction commit', async () => {
        await this.create('txns', 2)
        await transact(true, plain('txn', 0, 3))
      }],
      ['transaction abort', () => transact(false, plain('txn', 3, 2))],
      ['read committed', async () => {
        await transact(true, plain('txn', 5, 2))
        this.same(await this.c.fetch(topic, 0, 5, true), [...plain('txn', 0, 3), ...plain('txn', 5, 2)])
      }],
      ['read uncommitted', async () => this.same(await this.c.fetch(topic, 0, 7, false), plain('txn', 0, 7))],
      ['transaction offsets', async () => {
        const t = await this.c.transactor(id)
        for (const [offset, commit, want] of [[3, true, 3], [5, false, 3], [7, true, 7]]) {
          await t.begin()
          await t.produce(topic, 1, plain('offsets', 0, 1))
          await t.offsets(group, topic, 0, offset)
          await t.end(commit)
          await eventually(async () => check('offsets', await this.c.committed(group, topic), { 0: want }))
        }
        await t.close()
      }],
      ['transaction fenced', async () => {
        const old = await this.c.transactor(id)
        await old.begin()
        await old.produce(topic, 1, plain('old', 0, 1))
        await transact(true, plain('new', 7, 1))
        await this.refused([47, 90], async () => {
          await old.produce(topic, 1, plain('old', 1, 1))
          await old.end(true)
        })
        await old.close()
      }],
    ]
  }

  // What all clients share.

  async write () {
    try {
      await this.create('shared', codecs.length)
    } catch (e) {
      if ((e.kafka ?? this.c.code(e)) !== 36) throw e
    }
    await this.together(codecs.map((codec, i) => [
      `write ${codec}`, () => this.c.produce(this.topic('shared'), i, codec, sample(this.c.name, codec), false),
    ]))
  }

  // A client may be followed by codecs, as in kcat:none,gzip, where it does not have all.
  async read (clients) {
    const wrote = new Map(clients.map(c => {
      const [name, some] = c.split(':')
      return [name, some ? some.split(',') : codecs]
    }))
    const have = new Map() // samples by client/codec
    await this.together(...codecs.map((codec, i) => [[`read ${codec}`, async () => {
      const want = sampleSize * [...wrote.values()].filter(some => some.includes(codec)).length
      const got = await this.c.fetch(this.topic('shared'), i, want, false)
      for (let at = 0; at < got.length; at += sampleSize) {
        const [client] = got[at].key.toString().split('/')
        have.set(`${client}/${codec}`, got.slice(at, at + sampleSize))
      }
    }]]))
    await this.together([...wrote].map(([client, some]) => [`read what ${client} wrote`, () => {
      for (const codec of some) this.same(have.get(`${client}/${codec}`) ?? [], sample(client, codec))
    }]))
  }
}

// secure goes every way of a file, one after the other. The first makes the topic, in which
// each has a partition.
async function secure (file, open) {
  const ways = JSON.parse(readFileSync(file, 'utf8'))
  let r
  for (const [i, way] of ways.entries()) {
    r ??= new Run({ skip: {} })
    await r.together([[way.name, async () => {
      const opened = open(way.brokers.join(',').split(','), way)
      if (way.expect === 'authentication') return r.refused([58], () => opened)
      const c = await opened
      const topic = r.topic(`secure-${c.name}`)
      if (i === 0) {
        r.c = c
        await r.create(`secure-${c.name}`, ways.length)
      }
      const records = [0, 1, 2].map(n => ({ key: Buffer.from(way.name), value: Buffer.from(`${n}`), headers: [], time: Date.now() }))
      const written = c.produce(topic, i, 'none', records, !way.expect)
      if (way.expect === 'authorization') return r.refused([29], () => written)
      await written
      check('records', (await c.fetch(topic, i, records.length, false)).length, records.length)
    }]])
  }
  return r
}

// steady has two producers for each way of a file: one that stays, and one that comes new for
// each record, and goes by what the file says then. Until there is a file stop in the directory
// it keeps a file there, by the client's name, with a line for each way: how many records of both
// are acknowledged. The first one that is not ends it, and is told there.
async function steady (file, dir, name, sender) {
  const ways = () => JSON.parse(readFileSync(file, 'utf8'))
  const put = text => {
    writeFileSync(`${dir}/${name}.new`, text)
    renameSync(`${dir}/${name}.new`, `${dir}/${name}`)
  }
  const topic = `${process.env.T}-steady`
  const counts = ways().map(() => [0, 0])
  const errors = []
  let stop = false
  const guarded = (what, f) => f().catch(e => {
    errors.push(`${what}: ${e.stack}`)
    stop = true
  })
  const all = ways().flatMap((way, i) => [
    guarded(`${way.name}, who stays`, async () => {
      const p = await sender(way, topic, i)
      for (; !stop; await sleep(20)) {
        await p.send()
        counts[i][0]++
      }
      await p.close()
    }),
    guarded(`${way.name}, who comes new`, async () => {
      for (; !stop; await sleep(200)) {
        const p = await sender(ways()[i], topic, i)
        await p.send()
        await p.close()
        counts[i][1]++
      }
    }),
  ])
  for (; !stop; await sleep(50)) {
    put(counts.map(c => `${c.join(' ')}\n`).join(''))
    stop ||= existsSync(`${dir}/stop`)
  }
  await Promise.all(all)
  if (errors.length) put(`failed: ${errors.join('; ')}\n`)
  for (const e of errors) console.error(e)
  return errors.length
}

export async function main (open, sender) {
  const [what, ...args] = process.argv.slice(2)
  if (what === 'steady') process.exit(await steady(...args, 'kafkajs', sender) ? 1 : 0)
  if (what === 'secure') process.exit((await secure(args[0], open)).failed ? 1 : 0)
  if (!process.env.BOOTSTRAP || !['run', 'write', 'read'].includes(what)) {
    console.error('usage: BOOTSTRAP=HOST:PORT,… PROGRAM run | write | read CLIENT… | secure FILE')
    process.exit(1)
  }
  const r = new Run(await open(process.env.BOOTSTRAP.split(',')))
  if (what === 'run') {
    await r.together(r.topics())
    await r.together(...r.data(), ...r.groups(), r.transactions())
    await r.together(r.admin())
  } else if (what === 'write') {
    await r.write()
  } else {
    await r.read(args)
  }
  process.exit(r.failed ? 1 : 0)
}
