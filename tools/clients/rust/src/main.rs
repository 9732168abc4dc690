//! Runs with rskafka the scenarios of ../scenario that it has the means for.
//!
//! ```text
//! run              on topics of its own; a line for each scenario
//! write            a sample with each codec, to the topic that all clients share
//! read CLIENT …    what these clients have written there; a line for each of them
//! ```

use std::{collections::BTreeMap, env, future::Future, process::ExitCode};

use chrono::DateTime;
use rskafka::{
    client::{
        error::{Error, ProtocolError},
        partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling},
        Client, ClientBuilder,
    },
    record::Record,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const NAME: &str = "rskafka";
const CODECS: [(&str, Compression); 5] = [
    ("none", Compression::NoCompression),
    ("gzip", Compression::Gzip),
    ("snappy", Compression::Snappy),
    ("lz4", Compression::Lz4),
    ("zstd", Compression::Zstd),
];
const SAMPLE_SIZE: usize = 10;
const SAMPLE_TIME: i64 = 1_700_000_000_000;
const WAIT_MS: i32 = 5000;

/// What the client cannot do, by the scenario.
const SKIPS: [(&str, &str); 23] = [
    ("idempotent", "it has no producer ID"),
    ("group classic", "it has no groups"),
    ("group static", "it has no groups"),
    ("group consumer", "it has no groups"),
    ("transaction commit", "it has no transactions"),
    ("transaction abort", "it has no transactions"),
    ("read committed", "it has no transactions"),
    ("read uncommitted", "it has no transactions"),
    ("transaction offsets", "it has no transactions"),
    ("transaction fenced", "it has no transactions"),
    ("describe configs", "it does not have the request"),
    ("alter configs", "it does not have the request"),
    ("alter configs to nonsense", "it does not have the request"),
    ("create partitions", "it does not have the request"),
    ("create partitions that are fewer", "it does not have the request"),
    ("list groups", "it has no groups"),
    ("describe group", "it has no groups"),
    ("describe group with members", "it has no groups"),
    ("group offsets", "it has no groups"),
    ("alter group offsets", "it has no groups"),
    ("delete group offsets", "it has no groups"),
    ("delete group", "it has no groups"),
    ("delete group again", "it has no groups"),
];

/// A sample is what each client writes with each codec. Headers are a map here: they have no
/// order, and one name stands once.
fn sample(client: &str, codec: &str) -> Vec<Record> {
    (0..SAMPLE_SIZE)
        .map(|i| {
            let name = format!("{client}/{codec}/{i}");
            let mut headers: BTreeMap<String, Vec<u8>> = [
                ("client", client.as_bytes().to_vec()),
                ("codec", codec.as_bytes().to_vec()),
                ("bytes", vec![0, 0xff, 0xfe, 0x80]),
                ("empty", vec![]),
            ]
            .map(|(k, v)| (k.to_owned(), v))
            .into();
            let mut key = Some(name.clone().into_bytes());
            let mut value = Some(format!("{name};").repeat(i * 40).into_bytes());
            match i {
                0 => value = None,
                1 => value = Some(vec![]),
                2 => value = Some((0..=255).collect()),
                3 => key = None,
                4 => key = Some(vec![]),
                5 => drop(headers.insert("client".to_owned(), b"again".to_vec())),
                6 => headers.clear(),
                _ => {}
            }
            record(key, value, headers, i as i64 * 1000)
        })
        .collect()
}

fn record(key: Option<Vec<u8>>, value: Option<Vec<u8>>, headers: BTreeMap<String, Vec<u8>>, after: i64) -> Record {
    let timestamp = DateTime::from_timestamp_millis(SAMPLE_TIME + after).expect("within range");
    Record { key, value, headers, timestamp }
}

fn plain(value: Vec<u8>) -> Vec<Record> {
    vec![record(Some(b"0".to_vec()), Some(value), BTreeMap::new(), 0)]
}

/// A value that no codec makes smaller.
fn noise(n: usize) -> Vec<u8> {
    let mut x: u32 = 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x as u8
    };
    (0..n).map(|_| next()).collect()
}

struct Run {
    prefix: String,
    failed: bool,
}

impl Run {
    /// Runs one scenario and tells of it.
    async fn tell(&mut self, name: &str, scenario: impl Future<Output = Result<()>>) {
        match scenario.await {
            Ok(()) => println!("ok {name}"),
            Err(e) => {
                println!("fail {name}: {e}");
                self.failed = true;
            }
        }
    }

    fn topic(&self, of: &str) -> String {
        format!("{}-{of}", self.prefix)
    }
}

async fn create(client: &Client, topic: &str, partitions: i32) -> Result<()> {
    Ok(client.controller_client()?.create_topic(topic, partitions, 1, WAIT_MS).await?)
}

async fn partition(client: &Client, topic: &str, index: i32) -> Result<PartitionClient> {
    Ok(client.partition_client(topic, index, UnknownTopicHandling::Retry).await?)
}

async fn partitions(client: &Client, topic: &str) -> Result<usize> {
    let all = client.list_topics().await?;
    Ok(all.iter().find(|t| t.name == topic).map_or(0, |t| t.partitions.len()))
}

fn refused<T>(result: Result<T>, code: ProtocolError) -> Result<()> {
    let error = match result {
        Ok(_) => return Err("not refused".into()),
        Err(error) => error,
    };
    match error.downcast_ref() {
        Some(Error::ServerError { protocol_error, .. }) if *protocol_error == code => Ok(()),
        _ => Err(error),
    }
}

fn same(got: &[Record], want: &[Record]) -> Result<()> {
    if got.len() != want.len() {
        return Err(format!("{} records, want {}", got.len(), want.len()).into());
    }
    match (0..got.len()).find(|&i| got[i] != want[i]) {
        Some(i) => Err(format!("record {i} is {:?}, want {:?}", got[i], want[i]).into()),
        None => Ok(()),
    }
}

/// Reads a partition to its end.
async fn fetch(client: &Client, topic: &str, index: i32) -> Result<Vec<Record>> {
    let p = partition(client, topic, index).await?;
    let mut offset = p.get_offset(OffsetAt::Earliest).await?;
    let mut out = vec![];
    loop {
        let (some, end) = p.fetch_records(offset, 1..5_000_000, 100).await?;
        offset = some.last().map_or(offset, |r| r.offset + 1);
        out.extend(some.into_iter().map(|r| r.record));
        if offset >= end {
            return Ok(out);
        }
    }
}

async fn produce(client: &Client, topic: &str, index: i32, records: Vec<Record>, codec: Compression) -> Result<()> {
    partition(client, topic, index).await?.produce(records, codec).await?;
    Ok(())
}

async fn round_trip(client: &Client, topic: &str, index: i32, records: Vec<Record>, codec: Compression) -> Result<()> {
    produce(client, topic, index, records.clone(), codec).await?;
    same(&fetch(client, topic, index).await?, &records)
}

async fn offset_is(client: &Client, topic: &str, index: i32, at: OffsetAt, want: i64) -> Result<()> {
    let got = partition(client, topic, index).await?.get_offset(at).await?;
    if got != want {
        return Err(format!("offset at {at:?} is {got}, want {want}").into());
    }
    Ok(())
}

async fn run(r: &mut Run, client: &Client) {
    let (data, more) = (r.topic("data"), r.topic("more"));
    r.tell("create topic", async {
        create(client, &data, CODECS.len() as i32).await?;
        create(client, &more, 3).await?;
        match partitions(client, &data).await? {
            5 => Ok(()),
            n => Err(format!("{n} partitions").into()),
        }
    })
    .await;
    r.tell("create topic again", async { refused(create(client, &data, 5).await, ProtocolError::TopicAlreadyExists) }).await;
    for (i, (name, codec)) in CODECS.into_iter().enumerate() {
        r.tell(&format!("produce {name}"), round_trip(client, &data, i as i32, sample(NAME, name), codec)).await;
    }
    r.tell("large record", round_trip(client, &more, 1, plain(noise(900_000)), Compression::NoCompression)).await;
    r.tell("too large record", async {
        let large = produce(client, &more, 0, plain(noise(1_100_000)), Compression::NoCompression).await;
        refused(large, ProtocolError::MessageTooLarge)?;
        round_trip(client, &more, 0, plain(b"small".to_vec()), Compression::NoCompression).await
    })
    .await;
    r.tell("empty topic", async {
        same(&fetch(client, &more, 2).await?, &[])?;
        offset_is(client, &more, 2, OffsetAt::Earliest, 0).await?;
        offset_is(client, &more, 2, OffsetAt::Latest, 0).await
    })
    .await;
    r.tell("list offsets", async {
        let third = DateTime::from_timestamp_millis(SAMPLE_TIME + 3000).expect("within range");
        offset_is(client, &data, 0, OffsetAt::Earliest, 0).await?;
        offset_is(client, &data, 0, OffsetAt::Latest, SAMPLE_SIZE as i64).await?;
        offset_is(client, &data, 0, OffsetAt::Timestamp(third), 3).await
    })
    .await;
    r.tell("delete records", async {
        partition(client, &data, 0).await?.delete_records(4, WAIT_MS).await?;
        offset_is(client, &data, 0, OffsetAt::Earliest, 4).await
    })
    .await;
    let control = client.controller_client().expect("a client has one");
    r.tell("delete topic", async { Ok(control.delete_topic(&more, WAIT_MS).await?) }).await;
    r.tell("delete topic again", async {
        let again = control.delete_topic(&more, WAIT_MS).await.map_err(Into::into);
        refused(again, ProtocolError::UnknownTopicOrPartition)
    })
    .await;
    for (name, reason) in SKIPS {
        println!("skip {name}: {reason}");
    }
}

async fn write(r: &mut Run, client: &Client) {
    let topic = r.topic("shared");
    for (i, (name, codec)) in CODECS.into_iter().enumerate() {
        r.tell(&format!("write {name}"), produce(client, &topic, i as i32, sample(NAME, name), codec)).await;
    }
}

/// A client may be followed by codecs, as in kcat:none,gzip, where it does not have all.
async fn read(r: &mut Run, client: &Client, clients: &[String]) {
    let topic = r.topic("shared");
    let mut have: BTreeMap<String, Vec<Record>> = BTreeMap::new();
    for (i, (name, _)) in CODECS.into_iter().enumerate() {
        let got = fetch(client, &topic, i as i32).await;
        r.tell(&format!("read {name}"), async {
            for sample in got?.chunks(SAMPLE_SIZE) {
                let key = sample[0].key.clone().unwrap_or_default();
                have.insert(String::from_utf8(key)?.trim_end_matches("/0").to_owned(), sample.to_vec());
            }
            Ok(())
        })
        .await;
    }
    for c in clients {
        let (name, some) = c.split_once(':').unwrap_or((c, "none,gzip,snappy,lz4,zstd"));
        r.tell(&format!("read what {name} wrote"), async {
            for codec in some.split(',') {
                let got = have.get(&format!("{name}/{codec}")).ok_or(format!("nothing with {codec}"))?;
                same(got, &sample(name, codec)).map_err(|e| format!("{codec}: {e}"))?;
            }
            Ok(())
        })
        .await;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let (Ok(bootstrap), Some(what)) = (env::var("BOOTSTRAP"), args.first()) else {
        eprintln!("usage: BOOTSTRAP=HOST:PORT,… PROGRAM run | write | read CLIENT…");
        return ExitCode::FAILURE;
    };
    let brokers = bootstrap.split(',').map(str::to_owned).collect();
    let client = match ClientBuilder::new(brokers).build().await {
        Ok(client) => client,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    };
    let mut r = Run { prefix: env::var("T").unwrap_or(NAME.to_owned()), failed: false };
    match what.as_str() {
        "run" => run(&mut r, &client).await,
        "write" => write(&mut r, &client).await,
        "read" => read(&mut r, &client, &args[1..]).await,
        _ => r.failed = true,
    }
    ExitCode::from(u8::from(r.failed))
}
