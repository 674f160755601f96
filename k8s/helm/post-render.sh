#!/bin/sh
# A post-renderer for Helm: puts the sidecar into what a chart makes (standard input to output).
# Helm 3 takes this file's path, Helm 4 the plugin in this folder: docs/kubernetes.md.
set -eu
here=$(cd -P "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R "$here/../components/sidecar" "$work/sidecar"
cat > "$work/chart.yaml"
cat > "$work/kustomization.yaml" <<'END'
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [chart.yaml]
components: [sidecar]
END
"${KUBECTL:-kubectl}" kustomize "$work"
