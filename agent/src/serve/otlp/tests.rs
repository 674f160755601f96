//! Against a stand-in for a collector, which takes what is pushed to it apart.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Mutex,
        atomic::AtomicU16,
        mpsc::{SyncSender, sync_channel},
    },
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, routing::post};
use opentelemetry_proto::tonic::{
    collector::metrics::v1::{ExportMetricsPartialSuccess, ExportMetricsServiceRequest},
    common::v1::{KeyValue, any_value},
    metrics::v1::{AggregationTemporality, metric::Data, number_data_point},
};
use serde_json::Value as Json;
use ureq::http::StatusCode;

use super::*;
use crate::serve::{
    live::tests::{allocation, call, feed, live, parsed, process},
    metrics::Format,
};

/// What a collector was sent.
struct Received {
    headers: HeaderMap,
    request: ExportMetricsServiceRequest,
}

/// What it answers, and where it leaves what came.
struct Manner {
    status: AtomicU16,
    answer: Mutex<Vec<u8>>,
    received: SyncSender<Received>,
}

/// A collector.
struct Collector {
    address: SocketAddr,
    manner: Arc<Manner>,
    received: Receiver<Received>,
}

impl Collector {
    fn start() -> Self {
        let (sender, received) = sync_channel(1000);
        let manner = Arc::new(Manner {
            status: AtomicU16::new(200),
            answer: Mutex::default(),
            received: sender,
        });
        let (tell, told) = channel();
        let app = Router::new()
            .route("/v1/metrics", post(take))
            .with_state(Arc::clone(&manner));
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
                let listener = listener.expect("a port");
                tell.send(listener.local_addr().expect("an address"))
                    .expect("awaited");
                axum::serve(listener, app).await.expect("served");
            });
        });
        Self {
            address: told.recv().expect("started"),
            manner,
            received,
        }
    }

    fn next(&self) -> Received {
        self.received
            .recv_timeout(Duration::from_mins(1))
            .expect("something is pushed")
    }
}

async fn take(
    State(manner): State<Arc<Manner>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, Vec<u8>) {
    let request = ExportMetricsServiceRequest::decode(body).expect("a message");
    let _ = manner.received.send(Received { headers, request });
    let status = manner.status.load(Ordering::Relaxed);
    let answer = manner.answer.lock().expect("no panic").clone();
    (StatusCode::from_u16(status).expect("a status"), answer)
}

fn settings(address: SocketAddr) -> Settings {
    let variable = |name: &str| {
        let value = match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => format!("http://{address}"),
            "OTEL_EXPORTER_OTLP_HEADERS" => "x-scope=team%20a".to_owned(),
            "OTEL_METRIC_EXPORT_INTERVAL" => "20".to_owned(),
            "OTEL_EXPORTER_OTLP_TIMEOUT" => "200".to_owned(),
            _ => return None,
        };
        Some(value)
    };
    let wanted = Settings::read(&variable).expect("fine");
    assert_eq!(wanted.warnings, []);
    wanted.settings.expect("a collector")
}

fn identity() -> Identity {
    let attributes = [("service.name", "cudasnoop"), ("k8s.pod.name", "vllm-0")];
    let attributes = attributes.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Identity(BTreeMap::from(attributes))
}

fn start(address: SocketAddr, live: &Arc<Live>) -> Push {
    Push::with(settings(address), identity(), Arc::clone(live)).expect("it starts")
}

fn pairs(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let pair = |attribute: &KeyValue| {
        let value = attribute.value.clone().and_then(|value| value.value);
        let Some(any_value::Value::StringValue(value)) = value else {
            panic!("{attribute:?}");
        };
        (attribute.key.clone(), value)
    };
    attributes.iter().map(pair).collect()
}

/// Name, labels, value.
type Series = BTreeMap<(String, BTreeMap<String, String>), f64>;

/// As a collector makes Prometheus' series of it: the rules of OpenTelemetry's specification.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn series(request: &ExportMetricsServiceRequest) -> Series {
    let mut series = Series::new();
    let mut add = |name: String, labels, value| {
        let before = series.insert((name, labels), value);
        assert_eq!(before, None, "twice");
    };
    let [resource] = request.resource_metrics.as_slice() else {
        panic!("{request:?}");
    };
    for metric in resource
        .scope_metrics
        .iter()
        .flat_map(|scope| &scope.metrics)
    {
        let unit = match metric.unit.as_str() {
            "By" => "_bytes",
            "s" => "_seconds",
            "1" => "_ratio",
            "" => "",
            unit => panic!("{unit}"),
        };
        let name = format!("{}{unit}", metric.name.replace('.', "_"));
        let number = |value: &Option<number_data_point::Value>| match value {
            Some(number_data_point::Value::AsInt(value)) => *value as f64,
            Some(number_data_point::Value::AsDouble(value)) => *value,
            None => panic!("no value"),
        };
        let cumulative = i32::from(AggregationTemporality::Cumulative);
        match metric.data.as_ref().expect("data") {
            Data::Gauge(gauge) => {
                for point in &gauge.data_points {
                    add(name.clone(), pairs(&point.attributes), number(&point.value));
                }
            }
            Data::Sum(sum) => {
                assert!(sum.is_monotonic && sum.aggregation_temporality == cumulative);
                for point in &sum.data_points {
                    assert!(0 < point.start_time_unix_nano);
                    assert!(point.start_time_unix_nano <= point.time_unix_nano);
                    let name = format!("{name}_total");
                    add(name, pairs(&point.attributes), number(&point.value));
                }
            }
            Data::Histogram(histogram) => {
                assert_eq!(histogram.aggregation_temporality, cumulative);
                for point in &histogram.data_points {
                    let labels = pairs(&point.attributes);
                    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
                    let mut below = 0;
                    let bounds = point.explicit_bounds.iter().copied();
                    let bounds = bounds.chain([f64::INFINITY]);
                    for (bound, count) in bounds.zip(&point.bucket_counts) {
                        below += count;
                        let mut labels = labels.clone();
                        labels.insert("le".to_owned(), bound.to_string());
                        add(format!("{name}_bucket"), labels, below as f64);
                    }
                    add(format!("{name}_count"), labels.clone(), point.count as f64);
                    add(format!("{name}_sum"), labels, point.sum.expect("a sum"));
                }
            }
            other => panic!("{other:?}"),
        }
    }
    series
}

/// What Prometheus' own parser finds in `/metrics`.
fn scraped(live: &Live) -> Series {
    let found = parsed(live, Format::Prometheus);
    let series = found.iter().map(|one| {
        let labels = one["labels"].as_object().expect("labels").iter();
        let labels = labels.map(|(key, value)| {
            let value = value.as_str().expect("text");
            let value = match (key.as_str(), value.parse::<f64>()) {
                // 1024.0 and 1024 are one bound.
                ("le", Ok(bound)) => bound.to_string(),
                _ => value.to_owned(),
            };
            (key.clone(), value)
        });
        let name = one["name"].as_str().expect("a name").to_owned();
        let value = one["value"]
            .as_f64()
            .or_else(|| one["value"].as_str()?.parse().ok());
        ((name, labels.collect()), value.expect("a number"))
    });
    series.collect()
}

/// Without what changes from one look to the next.
fn without_own(series: Series) -> Series {
    let own = ["cudasnoop_agent_", "cudasnoop_otlp_"];
    let series = series.into_iter();
    series
        .filter(|((name, _), _)| !own.iter().any(|own| name.starts_with(own)))
        .collect()
}

fn fed() -> Arc<Live> {
    let (live, mut sink) = live();
    feed(&mut sink, &process(1, "VLLM::\"Worker\" \u{e9}"));
    for number in 0..50 {
        feed(
            &mut sink,
            &allocation(1, 0x1000_0000 * (number + 1), 3 << 20),
        );
    }
    let mut failed = allocation(1, 0, 4096);
    failed.result = Some(2);
    feed(&mut sink, &failed);
    feed(&mut sink, &call("cudaDeviceSynchronize", 1));
    live
}

#[test]
fn what_is_pushed_is_what_metrics_shows() {
    let collector = Collector::start();
    let live = fed();
    let _push = start(collector.address, &live);
    let Received { headers, request } = collector.next();
    assert_eq!(headers["content-type"], "application/x-protobuf");
    assert_eq!(headers["x-scope"], "team a");
    let resource = request.resource_metrics[0].resource.as_ref().expect("one");
    assert_eq!(pairs(&resource.attributes), identity().0);
    let pushed = series(&request);
    let scraped = scraped(&live);
    let names = |series: &Series| -> Vec<(String, BTreeMap<String, String>)> {
        series.keys().cloned().collect()
    };
    assert_eq!(names(&pushed), names(&scraped));
    let pushed = without_own(pushed);
    assert!(pushed.len() > 30, "{}", pushed.len());
    assert_eq!(pushed, without_own(scraped));
    let calls = pushed
        .iter()
        .filter(|((name, _), _)| name == "cudasnoop_api_calls_total");
    let calls: f64 = calls.map(|(_, count)| count).sum();
    assert!((calls - 52.0).abs() < f64::EPSILON, "{calls}");
}

/// How often pushes ended so, as `/metrics` says.
fn pushes(live: &Live, result: &str) -> u64 {
    let mut samples = Samples::default();
    live.pushes.collect(&mut samples);
    let json = serde_json::to_value(crate::serve::metrics::Page::new(&samples, 0)).expect("JSON");
    let series = json["metrics"][0]["series"].as_array().expect("series");
    let found = series.iter().find(|one| one["labels"]["result"] == result);
    found
        .and_then(|one: &Json| one["value"].as_u64())
        .expect("a count")
}

fn until(condition: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_mins(1);
    while !condition() {
        assert!(
            std::time::Instant::now() < deadline,
            "it never came to that"
        );
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_collector_that_refuses_is_counted_and_asked_again() {
    let collector = Collector::start();
    collector.manner.status.store(503, Ordering::Relaxed);
    let live = fed();
    let _push = start(collector.address, &live);
    until(|| pushes(&live, "failure") >= 2);
    assert_eq!(pushes(&live, "success"), 0);
    let partial = ExportMetricsServiceResponse {
        partial_success: Some(ExportMetricsPartialSuccess {
            rejected_data_points: 3,
            error_message: "too many".to_owned(),
        }),
    };
    *collector.manner.answer.lock().expect("no panic") = partial.encode_to_vec();
    collector.manner.status.store(200, Ordering::Relaxed);
    until(|| pushes(&live, "partial") >= 1);
    collector.manner.answer.lock().expect("no panic").clear();
    until(|| pushes(&live, "success") >= 1);
}

#[test]
fn a_collector_that_is_not_there_or_silent_holds_nobody_up() {
    // It takes connections, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address")
    };
    for address in [silent.local_addr().expect("an address"), gone] {
        let (live, mut sink) = live();
        feed(&mut sink, &process(1, "worker"));
        let push = start(address, &live);
        let mut fed = 0_u32;
        until(|| pushes(&live, "failure") >= 2);
        for _ in 0..1000 {
            feed(&mut sink, &call("cudaDeviceSynchronize", 1));
            fed += 1;
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        runtime.block_on(push.finish());
        let series = scraped(&live);
        let calls = series
            .iter()
            .find(|((name, _), _)| name == "cudasnoop_api_calls_total");
        assert_eq!(calls.map(|(_, count)| *count), Some(f64::from(fed)));
    }
}

#[test]
fn the_end_is_pushed() {
    let collector = Collector::start();
    let live = fed();
    let mut settings = settings(collector.address);
    settings.interval = Duration::from_hours(1);
    let push = Push::with(settings, identity(), Arc::clone(&live)).expect("it starts");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(push.finish());
    assert!(collector.received.try_recv().is_ok());
    assert_eq!(pushes(&live, "success"), 1);
}
