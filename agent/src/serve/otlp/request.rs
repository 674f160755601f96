//! Samples as OpenTelemetry's messages.
//!
//! Names are such that a collector which makes Prometheus' names of them (dots become underscores,
//! the unit and `total` are appended) makes those of `/metrics`.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value},
    metrics::v1::{
        AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric as Message,
        NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric::Data, number_data_point,
    },
    resource::v1::Resource,
};

use super::{
    super::metrics::{Distribution, Metric, Samples, Text, Type, Unit, Value},
    resource::Identity,
};

/// What is pushed: all that `samples` say, of `now`. Sums began at `start`.
pub(super) fn of(
    samples: &Samples,
    identity: &Identity,
    start: SystemTime,
    now: SystemTime,
) -> ExportMetricsServiceRequest {
    let moments = Moments {
        start: nanoseconds(start),
        now: nanoseconds(now),
    };
    let metrics = Metric::ALL.iter().filter_map(|&metric| {
        let points: Vec<_> = samples.of(metric).collect();
        (!points.is_empty()).then(|| message(metric, &points, moments))
    });
    let resource = Resource {
        attributes: identity
            .0
            .iter()
            .map(|(key, value)| attribute(key, value))
            .collect(),
        ..Resource::default()
    };
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(InstrumentationScope {
                    name: "cudasnoop".to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    ..InstrumentationScope::default()
                }),
                metrics: metrics.collect(),
                ..ScopeMetrics::default()
            }],
            ..ResourceMetrics::default()
        }],
    }
}

#[derive(Clone, Copy)]
struct Moments {
    start: u64,
    now: u64,
}

fn nanoseconds(moment: SystemTime) -> u64 {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// `cudasnoop_memory_held` is `cudasnoop.memory_held`.
pub(super) fn name(metric: Metric) -> String {
    let name = metric.name().replacen('_', ".", 1);
    match metric.kind() {
        // It is a gauge there, to which nothing is appended.
        Type::Info => format!("{name}_info"),
        Type::Counter | Type::Gauge | Type::Histogram => name,
    }
}

/// The unit, in UCUM's words.
const fn unit(metric: Metric) -> &'static str {
    match metric.unit() {
        Unit::None => "",
        Unit::Bytes => "By",
        Unit::Seconds => "s",
        Unit::Ratio => "1",
    }
}

fn message(metric: Metric, points: &[(&[Text], &Value)], moments: Moments) -> Message {
    let temporality = AggregationTemporality::Cumulative.into();
    let numbers = |start| {
        let points = points.iter();
        points
            .filter_map(|(labels, value)| number(metric, labels, value, start, moments.now))
            .collect()
    };
    let data = match metric.kind() {
        Type::Counter => Data::Sum(Sum {
            data_points: numbers(moments.start),
            aggregation_temporality: temporality,
            is_monotonic: true,
        }),
        Type::Gauge | Type::Info => Data::Gauge(Gauge {
            data_points: numbers(0),
        }),
        Type::Histogram => Data::Histogram(Histogram {
            data_points: points
                .iter()
                .filter_map(|(labels, value)| histogram(metric, labels, value, moments))
                .collect(),
            aggregation_temporality: temporality,
        }),
    };
    Message {
        name: name(metric),
        description: metric.help().trim().to_owned(),
        unit: unit(metric).to_owned(),
        data: Some(data),
        ..Message::default()
    }
}

fn number(
    metric: Metric,
    labels: &[Text],
    value: &Value,
    start: u64,
    now: u64,
) -> Option<NumberDataPoint> {
    let value = match value {
        Value::Count(count) => {
            number_data_point::Value::AsInt(i64::try_from(*count).unwrap_or(i64::MAX))
        }
        Value::Number(number) => number_data_point::Value::AsDouble(*number),
        Value::Distribution(_) => return None,
    };
    Some(NumberDataPoint {
        attributes: attributes(metric, labels),
        start_time_unix_nano: start,
        time_unix_nano: now,
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

fn histogram(
    metric: Metric,
    labels: &[Text],
    value: &Value,
    moments: Moments,
) -> Option<HistogramDataPoint> {
    let Value::Distribution(Distribution {
        sum,
        count,
        buckets,
    }) = value
    else {
        return None;
    };
    Some(HistogramDataPoint {
        attributes: attributes(metric, labels),
        start_time_unix_nano: moments.start,
        time_unix_nano: moments.now,
        count: *count,
        sum: Some(*sum),
        bucket_counts: buckets.iter().map(|(_, count)| *count).collect(),
        // The last one has none.
        explicit_bounds: buckets
            .iter()
            .map(|(bound, _)| *bound)
            .filter(|bound| bound.is_finite())
            .collect(),
        ..HistogramDataPoint::default()
    })
}

fn attributes(metric: Metric, labels: &[Text]) -> Vec<KeyValue> {
    let pairs = metric.labels().iter().zip(labels);
    pairs.map(|(key, value)| attribute(key, value)).collect()
}

fn attribute(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(any_value::Value::StringValue(value.to_owned())),
        }),
        ..KeyValue::default()
    }
}
