#!/usr/bin/env bash
# Builds OpenTelemetry's collector with what the tests need of it (OTLP in, OTLP over HTTP out), where test/helpers/collector.ts finds it.
# Needs Go and its module proxy, and 2 minutes. Usage: otelcol.sh FILE
set -euo pipefail
file="$1"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
version=0.165.0
export GOFLAGS=-mod=mod GOBIN="$folder"
go install "go.opentelemetry.io/collector/cmd/builder@v$version"
cat > "$folder/manifest.yaml" << END
dist: { name: otelcol, module: tollgate.test/otelcol, output_path: $folder/out }
receivers: [ { gomod: go.opentelemetry.io/collector/receiver/otlpreceiver v$version } ]
exporters: [ { gomod: go.opentelemetry.io/collector/exporter/otlphttpexporter v$version } ]
providers: [ { gomod: go.opentelemetry.io/collector/confmap/provider/fileprovider v1.71.0 } ]
conf_resolver: { default_uri_scheme: file }
END
"$folder/builder" --config "$folder/manifest.yaml"
mkdir -p "$(dirname "$file")"
mv "$folder/out/otelcol" "$file"
