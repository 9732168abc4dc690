// Runs the scenarios with @platformatic/kafka.

import { Admin, ConfigResourceTypes, Consumer, IncrementalAlterConfigOperationTypes, Producer } from '@platformatic/kafka'
import { main, noMore, sleep } from './scenario.mjs'

class Client {
  name = 'platformatic'
  skip = { 'group static': 'its static members leave when they close' }

  static async open (bootstrapBrokers) {
    const c = new Client()
    c.base = { clientId: 'platformatic', bootstrapBrokers, retryDelay: 50, metadataMaxAge: 1000 }
    c.adm = new Admin(c.base)
    return c
  }

  // code looks into all that the error wraps.
  code (e) {
    if (typeof e.apiCode === 'number' && e.apiCode !== 0) return e.apiCode
    for (const inner of [e.cause, ...(e.errors ?? [])]) {
      const code = inner && this.code(inner)
      if (code) return code
    }
    return e.message.startsWith('Unknown topic') ? 3 : 0
  }

  // Data.

  async produce (topic, partition, compression, records, idempotent) {
    const p = new Producer({ ...this.base, idempotent, autocreateTopics: false })
    try {
      await p.send({ compression, acks: -1, messages: outgoing(topic, partition, records) })
    } finally {
      await p.close()
    }
  }

  // fetch is a member of a group of its own.
  async fetch (topic, partition, want, committed) {
    const out = []
    const c = new Consumer({ ...this.base, groupId: `${topic}-fetch-${partition}-${Math.random()}`, autocommit: false, maxWaitTime: 100 })
    const stream = await c.consume({ topics: [topic], mode: 'earliest', isolationLevel: committed ? 1 : 0 })
    let failed
    stream.on('error', e => { failed = e })
    stream.on('data', m => { if (m.partition === partition) out.push(incoming(m)) })
    for (const deadline = Date.now() + 30_000; !failed && out.length < want && Date.now() < deadline;) await sleep(10)
    await sleep(noMore)
    await c.close(true)
    if (failed) throw failed
    return out
  }

  async offset (topic, partition, at) {
    const [t] = await this.adm.listOffsets({ topics: [{ name: topic, partitions: [{ partitionIndex: partition, timestamp: BigInt(at) }] }] })
    return Number(t.partitions[0].offset)
  }

  async join (m) {
    const member = new Member(m)
    await member.start(this.base)
    return member
  }

  // Administration.

  async createTopic (topic, partitions, configs) {
    const entries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    await this.adm.createTopics({ topics: [topic], partitions, replicas: 1, configs: entries })
  }

  async deleteTopic (topic) { await this.adm.deleteTopics({ topics: [topic] }) }

  async partitions (topic) {
    const m = await this.adm.metadata({ topics: [topic], forceUpdate: true, autocreateTopics: false })
    return m.topics.get(topic).partitionsCount
  }

  async addPartitions (topic, count) { await this.adm.createPartitions({ topics: [{ name: topic, count, assignments: null }] }) }

  async config (topic, name) {
    const [r] = await this.adm.describeConfigs({
      resources: [{ resourceType: ConfigResourceTypes.TOPIC, resourceName: topic, configurationKeys: [name] }],
    })
    return [r.configs[0].value, r.configs[0].configSource === 1]
  }

  async setConfig (topic, name, value) {
    const configs = [{ name, value, configOperation: IncrementalAlterConfigOperationTypes.SET }]
    await this.adm.incrementalAlterConfigs({ resources: [{ resourceType: ConfigResourceTypes.TOPIC, resourceName: topic, configs }] })
  }

  async deleteBefore (topic, partition, offset) {
    await this.adm.deleteRecords({ topics: [{ name: topic, partitions: [{ partition, offset: BigInt(offset) }] }] })
  }

  async groups () { return [...(await this.adm.listGroups({ types: ['classic', 'consumer'] })).keys()] }

  async groupState (group) {
    const g = (await this.adm.describeGroups({ groups: [group] })).get(group)
    return [g.state[0] + g.state.slice(1).toLowerCase(), g.members.size]
  }

  async groupType (group) { return (await this.adm.listGroups({ types: ['classic', 'consumer'] })).get(group).groupType.toLowerCase() }

  async committed (groupId, topic) {
    const [g] = await this.adm.listConsumerGroupOffsets({ groups: [groupId] })
    const t = g.topics.find(t => t.name === topic)
    return Object.fromEntries(t.partitions.map(p => [p.partitionIndex, Number(p.committedOffset)]))
  }

  async setCommitted (groupId, topic, offsets) {
    const partitionOffsets = Object.entries(offsets).map(([p, o]) => ({ partition: Number(p), offset: BigInt(o) }))
    await this.adm.alterConsumerGroupOffsets({ groupId, topics: [{ name: topic, partitionOffsets }] })
  }

  async deleteOffset (groupId, topic, partition) {
    await this.adm.deleteConsumerGroupOffsets({ groupId, topics: [{ name: topic, partitionIndexes: [partition] }] })
  }

  async deleteGroup (group) { await this.adm.deleteGroups({ groups: [group] }) }

  async transactor (id) {
    const t = new Transactor()
    t.base = this.base
    t.p = new Producer({ ...this.base, transactionalId: id, idempotent: true, retries: 5 })
    return t
  }
}

function outgoing (topic, partition, records) {
  return records.map(r => ({
    topic, partition, key: r.key ?? undefined, value: r.value ?? undefined, timestamp: BigInt(r.time),
    headers: new Map(r.headers.map(([name, value]) => [Buffer.from(name), value])), // keys are Buffers: each is another
  }))
}

function incoming (m) {
  return {
    key: m.key ?? null, value: m.value ?? null, headers: m.headerEntries.map(([name, value]) => [name.toString(), value]),
    time: Number(m.timestamp), partition: m.partition, offset: Number(m.offset),
  }
}

class Member {
  came = []
  read = new Map()
  count = 0

  constructor (m) { this.m = m }

  async start (base) {
    const how = this.m.consumer ? { groupProtocol: 'consumer' } : { sessionTimeout: 30_000, heartbeatInterval: 100 }
    const instance = this.m.instance ? { groupInstanceId: this.m.instance } : {}
    this.c = new Consumer({ ...base, groupId: this.m.group, autocommit: false, maxWaitTime: 100, ...how, ...instance })
    this.c.on('consumer:group:join', () => this.count++)
    this.stream = await this.c.consume({ topics: [this.m.topic], mode: 'committed', fallbackMode: 'earliest' })
    this.stream.on('error', e => { this.failed = e })
    this.stream.on('data', m => this.came.push(incoming(m)))
  }

  poll () {
    if (this.failed) throw this.failed
    for (const r of this.came) this.read.set(r.partition, r.offset + 1)
    return this.came.splice(0)
  }

  assigned () {
    const of = (this.c.assignments ?? []).find(a => a.topic === this.m.topic)
    return [...(of?.partitions ?? [])].sort()
  }

  rebalances () { return this.count }

  async commit () {
    const offsets = [...this.read].map(([partition, offset]) => ({ topic: this.m.topic, partition, offset: BigInt(offset), leaderEpoch: -1 }))
    if (offsets.length > 0) await this.c.commit({ offsets })
    this.read.clear()
  }

  async close () { await this.c.close(true) }
}

class Transactor {
  // begin says that the producer has no ID yet. Of itself it would say that it has number 0,
  // and is fenced but where that is so.
  async begin () { this.t = await this.p.beginTransaction({ producerId: -1n, producerEpoch: -1 }) }

  async produce (topic, partition, records) { await this.t.send({ acks: -1, messages: outgoing(topic, partition, records) }) }

  // offsets adds the offset of a message that nobody has consumed: no member of the group is
  // needed for it.
  async offsets (groupId, topic, partition, offset) {
    const c = new Consumer({ ...this.base, groupId })
    await this.t.addConsumer(c)
    const coordinatorId = await c.findGroupCoordinator()
    const consumer = { groupId, generationId: -1, memberId: '', coordinatorId }
    await this.t.addOffset({ topic, partition, offset: BigInt(offset) - 1n, metadata: { consumer } })
    await c.close()
  }

  async end (commit) { await (commit ? this.t.commit() : this.t.abort()) }
  async close () { await this.p.close(true) }
}

await main(Client.open)
