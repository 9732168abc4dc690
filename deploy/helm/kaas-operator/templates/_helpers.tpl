{{- define "operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimAll "-" }}
{{- end }}

{{- define "operator.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 45 | trimAll "-." }}
{{- else if contains (include "operator.name" .) .Release.Name }}
{{- .Release.Name | trunc 45 | trimAll "-." }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "operator.name" .) | trunc 45 | trimAll "-." }}
{{- end }}
{{- end }}

{{- define "operator.selector" -}}
app.kubernetes.io/name: {{ include "operator.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "operator.labels" -}}
{{ include "operator.selector" . }}
app.kubernetes.io/version: {{ include "operator.tag" . | trunc 63 | trimAll "-_." | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end }}

{{/* A tag of digits is a number where it has no quotes. */}}
{{- define "operator.tag" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion }}
{{- if kindIs "string" $tag }}{{ $tag }}{{ else }}{{ int64 $tag }}{{ end }}
{{- end }}

{{- define "operator.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ include "operator.tag" . }}
{{- end }}
{{- end }}

{{/* Each release has its own Lease: several work side by side in a namespace. */}}
{{- define "operator.lease" -}}
{{ include "operator.fullname" . }}
{{- end }}

{{- define "operator.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "operator.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}
