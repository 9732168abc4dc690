// Runs the scenarios with KafkaJS, and codecs of other packages.

import { readFileSync } from 'node:fs'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { lz4Compress, lz4Decompress, snappyCompress, snappyDecompress } from '@platformatic/wasm-utils'
import kafkajs from 'kafkajs'
import { earliest, latest, main, noMore, refusal, sleep } from './scenario.mjs'

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = kafkajs

// Java's producers write snappy as a stream of blocks behind a header.
const xerial = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0])

function unsnappy (b) {
  if (!b.subarray(0, 8).equals(xerial)) return snappyDecompress(b)
  const blocks = []
  for (let at = 16; at < b.length;) {
    const size = b.readUInt32BE(at)
    blocks.push(snappyDecompress(b.subarray(at + 4, at + 4 + size)))
    at += 4 + size
  }
  return Buffer.concat(blocks)
}

const codec = (compress, decompress) => () => ({ compress: async e => compress(e.buffer), decompress: async b => decompress(b) })
CompressionCodecs[CompressionTypes.Snappy] = codec(b => snappyCompress(b), unsnappy)
CompressionCodecs[CompressionTypes.LZ4] = codec(b => lz4Compress(b), b => lz4Decompress(b))
CompressionCodecs[CompressionTypes.ZSTD] = codec(b => zstdCompressSync(b), b => zstdDecompressSync(b))

const types = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }

class Client {
  name = 'kafkajs'
  skip = {
    'group static': 'its groups have no static members',
    'group consumer': 'it has the classic protocol only',
    'delete group offsets': 'it does not have the request',
  }

  static async open (brokers, way) {
    const c = new Client()
    c.kafka = new Kafka({ ...secured(way), brokers, logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50, retries: 5 } })
    c.adm = c.kafka.admin()
    await c.adm.connect()
    return c
  }

  // code looks into all that the error wraps.
  code (e) {
    if (e.name === 'KafkaJSSASLAuthenticationError') return 58 // it has none
    for (const inner of [e.cause, ...(e.errors ?? [])]) {
      const code = inner && this.code(inner)
      if (code) return code
    }
    return e.groups?.[0]?.errorCode ?? e.code ?? 0
  }

  // Data.

  async produce (topic, partition, codec, records, idempotent) {
    const p = this.kafka.producer({ idempotent, allowAutoTopicCreation: false })
    await p.connect()
    try {
      await p.send({ topic, compression: CompressionTypes[types[codec]], acks: -1, messages: outgoing(partition, records) })
    } finally {
      await p.disconnect()
    }
  }

  // fetch is a member of a group of its own: KafkaJS reads in no other way.
  async fetch (topic, partition, want, committed) {
    const out = []
    const groupId = `${topic}-fetch-${partition}-${Math.random()}`
    const c = this.kafka.consumer({ groupId, maxWaitTimeInMs: 100, readUncommitted: !committed, allowAutoTopicCreation: false })
    await c.connect()
    await c.subscribe({ topic, fromBeginning: true })
    await c.run({
      eachMessage: async m => { if (m.partition === partition) out.push(incoming(m)) },
    })
    for (const deadline = Date.now() + 30_000; out.length < want && Date.now() < deadline;) await sleep(10)
    await sleep(noMore)
    await c.disconnect()
    return out
  }

  async offset (topic, partition, at) {
    const all = at < 0 ? await this.adm.fetchTopicOffsets(topic) : await this.adm.fetchTopicOffsetsByTimestamp(topic, at)
    const o = all.find(o => o.partition === partition)
    return Number(at === earliest ? o.low : at === latest ? o.high : o.offset)
  }

  async join (m) {
    const member = new Member(m)
    await member.start(this.kafka)
    return member
  }

  // Administration.

  async createTopic (topic, numPartitions, configs) {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    const made = await this.adm.createTopics({ topics: [{ topic, numPartitions, replicationFactor: 1, configEntries }] })
    if (!made) throw refusal(36, 'createTopics says false: it exists')
  }

  async deleteTopic (topic) { await this.adm.deleteTopics({ topics: [topic] }) }

  // partitions asks for all topics: where it asks for one, it has it made.
  async partitions (topic) {
    const { topics } = await this.adm.fetchTopicMetadata()
    const t = topics.find(t => t.name === topic)
    if (!t) throw refusal(3, 'not among all topics')
    return t.partitions.length
  }

  async addPartitions (topic, count) { await this.adm.createPartitions({ topicPartitions: [{ topic, count }] }) }

  async config (topic, name) {
    const r = await this.adm.describeConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: [name] }] })
    const [e] = r.resources[0].configEntries
    return [e.configValue, e.configSource === 1]
  }

  // setConfig keeps the other that was set: the request replaces all.
  async setConfig (topic, name, value) {
    const configEntries = [{ name: 'retention.ms', value: '-1' }, { name, value }]
    await this.adm.alterConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }] })
  }

  async deleteBefore (topic, partition, offset) {
    await this.adm.deleteTopicRecords({ topic, partitions: [{ partition, offset: `${offset}` }] })
  }

  async groups () { return (await this.adm.listGroups()).groups.map(g => g.groupId) }

  async groupState (group) {
    const { groups: [g] } = await this.adm.describeGroups([group])
    return [g.state, g.members.length]
  }

  async committed (groupId, topic) {
    const [t] = await this.adm.fetchOffsets({ groupId, topics: [topic] })
    return Object.fromEntries(t.partitions.filter(p => p.offset !== '-1').map(p => [p.partition, Number(p.offset)]))
  }

  async setCommitted (groupId, topic, offsets) {
    const partitions = Object.entries(offsets).map(([p, offset]) => ({ partition: Number(p), offset: `${offset}` }))
    await this.adm.setOffsets({ groupId, topic, partitions })
  }

  async deleteGroup (group) { await this.adm.deleteGroups([group]) }

  async transactor (id) {
    const t = new Transactor()
    t.p = this.kafka.producer({ transactionalId: id, idempotent: true, maxInFlightRequests: 1 })
    await t.p.connect()
    return t
  }
}

function secured (way) {
  if (!way) return {}
  const read = file => file && readFileSync(file, 'utf8')
  const ssl = { ca: [read(way.ca)], cert: read(way.cert), key: read(way.key) }
  if (!way.mechanism) return { ssl }
  const mechanism = way.mechanism.toLowerCase()
  return { ssl, sasl: { mechanism, username: way.user, password: way.password, oauthBearerProvider: async () => ({ value: read(way.token).trim() }) } }
}

function outgoing (partition, records) {
  return records.map(r => {
    const headers = {}
    for (const [name, value] of r.headers) headers[name] = name in headers ? [headers[name], value] : value
    return { partition, key: r.key, value: r.value, headers, timestamp: `${r.time}` }
  })
}

function incoming ({ partition, message: m }) {
  const headers = Object.entries(m.headers).flatMap(([name, v]) => (Array.isArray(v) ? v : [v]).map(value => [name, value]))
  return { key: m.key, value: m.value, headers, time: Number(m.timestamp), partition, offset: Number(m.offset) }
}

class Member {
  came = []
  read = new Map()
  had = []
  count = 0

  constructor (m) { this.m = m }

  async start (kafka) {
    this.c = kafka.consumer({
      groupId: this.m.group, sessionTimeout: 30_000, heartbeatInterval: 100, maxWaitTimeInMs: 100, allowAutoTopicCreation: false,
    })
    this.c.on(this.c.events.GROUP_JOIN, ({ payload }) => {
      this.had = payload.memberAssignment[this.m.topic] ?? []
      this.count++
    })
    this.c.on(this.c.events.REBALANCING, () => { this.had = [] })
    await this.c.connect()
    await this.c.subscribe({ topic: this.m.topic, fromBeginning: true })
    await this.c.run({ autoCommit: false, eachMessage: async m => { this.came.push(incoming(m)) } })
  }

  poll () {
    for (const r of this.came) this.read.set(r.partition, r.offset + 1)
    return this.came.splice(0)
  }

  assigned () { return [...this.had].sort() }
  rebalances () { return this.count }

  async commit () {
    await this.c.commitOffsets([...this.read].map(([partition, offset]) => ({ topic: this.m.topic, partition, offset: `${offset}` })))
    this.read.clear()
  }

  async close () { await this.c.disconnect() }
}

class Transactor {
  async begin () { this.t = await this.p.transaction() }
  async produce (topic, partition, records) { await this.t.send({ topic, acks: -1, messages: outgoing(partition, records) }) }

  async offsets (consumerGroupId, topic, partition, offset) {
    await this.t.sendOffsets({ consumerGroupId, topics: [{ topic, partitions: [{ partition, offset: `${offset}` }] }] })
  }

  async end (commit) { await (commit ? this.t.commit() : this.t.abort()) }
  async close () { await this.p.disconnect() }
}

// sender is a producer of one partition that gets in as the way says.
async function sender (way, topic, partition) {
  const kafka = new Kafka({
    ...secured(way), brokers: way.brokers.join(',').split(','), logLevel: logLevel.NOTHING, connectionTimeout: 10_000,
    reauthenticationThreshold: 1000, // before an authentication ends; it is 10 s by default, which is longer than it is good
  })
  const p = kafka.producer({ allowAutoTopicCreation: false })
  await p.connect()
  return {
    send: () => p.send({ topic, acks: -1, messages: [{ partition, value: 'x' }] }),
    close: () => p.disconnect(),
  }
}

await main(Client.open, sender)
