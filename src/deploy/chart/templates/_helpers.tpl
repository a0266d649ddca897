{{- /* A name may have 63 characters. The suffixes of its objects take up to 11. */}}
{{- define "tollgate.name" -}}
{{- ternary .Release.Name (printf "%s-tollgate" .Release.Name) (contains "tollgate" .Release.Name) | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "tollgate.selector" -}}
app.kubernetes.io/name: tollgate
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "tollgate.labels" -}}
{{ include "tollgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* Refuses combinations of values that values.schema.json cannot compare. */}}
{{- define "tollgate.check" -}}
{{- $store := .Values.config.store | default "sqlite" }}
{{- $most := ternary .Values.autoscaling.maxReplicas .Values.replicas .Values.autoscaling.enabled | int }}
{{- if and (hasPrefix "sqlite" $store) (gt $most 1) }}
{{- fail (printf "%d replicas need config.store in PostgreSQL; a file in SQLite serves one: set replicas to 1" $most) }}
{{- end }}
{{- if and (not .Values.config.secret) (gt $most 1) }}
{{- fail (printf "%d replicas need config.secret, the same for all: ${file:/run/secrets/tollgate/secret}" $most) }}
{{- end }}
{{- if gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas) }}
{{- fail "autoscaling.minReplicas is above autoscaling.maxReplicas" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (eq .Values.metrics "token") (not .Values.serviceMonitor.tokenSecret.name) }}
{{- fail "serviceMonitor with metrics: token needs serviceMonitor.tokenSecret.name, a Secret with an operator's token" }}
{{- end }}
{{- end }}

{{- define "tollgate.files" -}}
gateway.yaml: |
  version: 1
  listen: 0.0.0.0:8080
  admin: 0.0.0.0:8082
  metrics: {{ .Values.metrics }}
  {{- with .Values.dashboardUrl }}
  dashboard: 0.0.0.0:8081
  dashboard_url: {{ . | quote }}
  {{- end }}
  drain: {{ int .Values.drainSeconds }}s
  {{- toYaml .Values.config | nindent 2 }}
{{- range $name, $policy := .Values.policies }}
policy.{{ $name }}.yaml: |
  {{- toYaml $policy | nindent 2 }}
{{- end }}
{{- end }}
