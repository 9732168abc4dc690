{{- define "kaas.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimAll "-" }}
{{- end }}

{{/* Short enough for "-external-999" and a StatefulSet's revision behind it. */}}
{{- define "kaas.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 45 | trimAll "-." }}
{{- else if contains (include "kaas.name" .) .Release.Name }}
{{- .Release.Name | trunc 45 | trimAll "-." }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "kaas.name" .) | trunc 45 | trimAll "-." }}
{{- end }}
{{- end }}

{{- define "kaas.selector" -}}
app.kubernetes.io/name: {{ include "kaas.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: broker
{{- end }}

{{- define "kaas.labels" -}}
{{ include "kaas.selector" . }}
app.kubernetes.io/version: {{ include "kaas.tag" . | trunc 63 | trimAll "-_." | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end }}

{{/* A tag of digits is a number where it has no quotes. */}}
{{- define "kaas.tag" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion }}
{{- if kindIs "string" $tag }}{{ $tag }}{{ else }}{{ int64 $tag }}{{ end }}
{{- end }}

{{- define "kaas.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ include "kaas.tag" . }}
{{- end }}
{{- end }}

{{- define "kaas.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "kaas.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "kaas.claim" -}}
{{- .Values.storage.existingClaim | default (include "kaas.fullname" .) }}
{{- end }}

{{- define "kaas.lease" -}}
{{ include "kaas.fullname" . }}-controller
{{- end }}

{{- define "kaas.externalProtocol" -}}
{{ .Values.external.protocol | default .Values.listeners.clients.protocol }}
{{- end }}

{{/* Whether a broker has to ask the API where its load balancer is: "true" or nothing. */}}
{{- define "kaas.asksForAddress" -}}
{{- if and .Values.external.enabled (eq .Values.external.type "LoadBalancer") (not .Values.external.host) }}true{{ end }}
{{- end }}

{{/* Whether there are Services of which brokers read the address. */}}
{{- define "kaas.readsServices" -}}
{{- if and (include "kaas.asksForAddress" .) (gt (int .Values.replicas) 0) }}true{{ end }}
{{- end }}

{{/* Whether brokers use the API at all. */}}
{{- define "kaas.usesAPI" -}}
{{- if or (eq .Values.election "kubernetes") (include "kaas.readsServices" .) }}true{{ end }}
{{- end }}

{{/* Whether a listener speaks TLS. */}}
{{- define "kaas.secure" -}}
{{- $protocols := list .Values.listeners.clients.protocol .Values.listeners.brokers.protocol }}
{{- if .Values.external.enabled }}{{ $protocols = append $protocols (include "kaas.externalProtocol" .) }}{{ end }}
{{- if or (has "SSL" $protocols) (has "SASL_SSL" $protocols) }}true{{ end }}
{{- end }}

{{/* What the listeners are told clients by. Of $(…) the kubelet makes values, of {id} it is the number. */}}
{{- define "kaas.advertised" -}}
{{- $v := .Values }}
{{- $name := printf "$(POD_NAME).%s-brokers.$(POD_NAMESPACE).svc.%s" (include "kaas.fullname" .) $v.clusterDomain }}
{{- $brokers := $v.listeners.brokers.advertise | default (ternary "name" "ip" (hasSuffix "SSL" $v.listeners.brokers.protocol)) }}
{{- $list := list (printf "BROKERS://%s:%d" (ternary "$(POD_IP)" $name (eq $brokers "ip")) (int $v.listeners.brokers.port)) }}
{{- $list = append $list (printf "CLIENTS://%s:%d" (ternary "$(POD_IP)" $name (eq $v.listeners.clients.advertise "ip")) (int $v.listeners.clients.port)) }}
{{- if and $v.external.enabled (not (include "kaas.asksForAddress" .)) }}
{{- $host := $v.external.host | default "$(HOST_IP)" | replace "{id}" "$(KAAS_NODE_ID)" }}
{{- $port := printf "%d" (int $v.external.port) }}
{{- if eq $v.external.type "NodePort" }}{{ $port = printf "%d+$(KAAS_NODE_ID)" (int $v.external.nodePortBase) }}{{ end }}
{{- $list = append $list (printf "EXTERNAL://%s:%s" $host $port) }}
{{- end }}
{{- join "," $list }}
{{- end }}

{{/* A value of a properties file: YAML's numbers without exponent, backslashes and line ends escaped. */}}
{{- define "kaas.property" -}}
{{- $s := toString . }}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ $s = printf "%.0f" . }}{{ end }}
{{- $s | replace "\\" "\\\\" | replace "\r" "\\r" | replace "\n" "\\n" }}
{{- end }}

{{/* What the chart sets because it is the chart's to know. */}}
{{- define "kaas.ownSettings" -}}
{{- $v := .Values }}
{{- $listeners := list (printf "BROKERS://:%d" (int $v.listeners.brokers.port)) (printf "CLIENTS://:%d" (int $v.listeners.clients.port)) }}
{{- $protocols := list (printf "BROKERS:%s" $v.listeners.brokers.protocol) (printf "CLIENTS:%s" $v.listeners.clients.protocol) }}
{{- if $v.external.enabled }}
{{- $listeners = append $listeners (printf "EXTERNAL://:%d" (int $v.external.port)) }}
{{- $protocols = append $protocols (printf "EXTERNAL:%s" (include "kaas.externalProtocol" .)) }}
{{- end -}}
listeners: {{ join "," $listeners | quote }}
listener.security.protocol.map: {{ join "," $protocols | quote }}
inter.broker.listener.name: BROKERS
log.dirs: {{ printf "/var/lib/kaas/%s" $v.storage.directory | quote }}
http.listeners: ":8080"
controller.election: {{ $v.election }}
{{- if eq $v.election "kubernetes" }}
controller.lease.name: {{ include "kaas.lease" . | quote }}
{{- end }}
{{- end }}

{{/* What the chart sets unless settings say something else. */}}
{{- define "kaas.givenSettings" -}}
# A pod runs before its name and ports lead to it.
advertised.listeners.wait.ms: "10000"
{{- if include "kaas.secure" . }}
ssl.keystore.type: PEM
ssl.keystore.location: /etc/kaas/tls/{{ .Values.tls.certificate }},/etc/kaas/tls/{{ .Values.tls.key }}
{{- with .Values.tls.ca }}
ssl.truststore.type: PEM
ssl.truststore.location: /etc/kaas/tls/{{ . }}
{{- end }}
listener.name.clients.ssl.client.auth: {{ .Values.tls.clientAuth }}
listener.name.brokers.ssl.client.auth: {{ .Values.tls.brokersClientAuth }}
{{- if .Values.external.enabled }}
listener.name.external.ssl.client.auth: {{ .Values.tls.clientAuth }}
{{- end }}
{{- end }}
{{- end }}

{{/* Whatever a schema has no words for. */}}
{{- define "kaas.check" -}}
{{- $v := .Values }}
{{- $full := include "kaas.fullname" . }}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $full) }}
{{- fail (printf "a Service cannot be called %s: a name begins with a letter, and has no dots. Give the release another one, or set fullnameOverride" $full) }}
{{- end }}
{{- $own := keys (include "kaas.ownSettings" . | fromYaml) | concat (list "node.id" "advertised.listeners" "advertised.services" "security.inter.broker.protocol" "controller.lease.name" "controller.lease.namespace") }}
{{- range $name, $_ := $v.settings }}
{{- if has $name $own }}{{ fail (printf "settings: %s is set by the chart, from its other values" $name) }}{{ end }}
{{- if regexMatch "(^|\\.)(password|sasl\\.jaas\\.config|ssl\\.keystore\\.key|secret|secret\\.key)$" $name }}
{{- fail (printf "settings: %s would be in a ConfigMap, for everybody to read: have a Secret bring it in, by extraEnv" $name) }}
{{- end }}
{{- end }}
{{- if and (include "kaas.secure" .) (not $v.tls.secretName) }}
{{- fail "tls.secretName: a listener has the protocol SSL or SASL_SSL, and needs a Secret with its key" }}
{{- end }}
{{- if and (not $v.storage.existingClaim) (has "ReadWriteOncePod" $v.storage.accessModes) (gt (int $v.replicas) 1) }}
{{- fail (printf "storage.accessModes: ReadWriteOncePod is for one pod, and there are to be %d" (int $v.replicas)) }}
{{- end }}
{{- $ports := list (int $v.listeners.clients.port) (int $v.listeners.brokers.port) 8080 }}
{{- if $v.external.enabled }}
{{- $ports = append $ports (int $v.external.port) }}
{{- if and (eq $v.external.type "NodePort") (gt (add (int $v.external.nodePortBase) (int $v.replicas) -1) 65535) }}
{{- fail (printf "external.nodePortBase: %d brokers from %d on are more ports than there are" (int $v.replicas) (int $v.external.nodePortBase)) }}
{{- end }}
{{- if and (eq $v.external.type "LoadBalancer") $v.external.host (gt (int $v.replicas) 1) (not (contains "{id}" $v.external.host)) }}
{{- fail "external.host: each broker has a load balancer of its own, so that the name needs {id} in it, such as kaas-{id}.example.com" }}
{{- end }}
{{- end }}
{{- if ne (len $ports) (len (uniq $ports)) }}
{{- fail "listeners: two of them have the same port, or 8080, which is that of health and metrics" }}
{{- end }}
{{- if le (int $v.terminationGracePeriodSeconds) (add (int $v.preStopSleepSeconds) 27) }}
{{- fail (printf "terminationGracePeriodSeconds: a broker needs up to 27 s to hand over and stop, after preStopSleepSeconds: give it %d or more" (add (int $v.preStopSleepSeconds) 28)) }}
{{- end }}
{{- end }}
