{{- define "ingot.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "ingot.selector" -}}
app.kubernetes.io/name: ingot
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{- define "ingot.labels" -}}
{{ include "ingot.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "ingot.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* "group.name" of a setting as the variable that sets it */ -}}
{{- define "ingot.variable" -}}
INGOT_{{ . | trimPrefix "DEFAULT." | replace "." "_" | upper }}
{{- end }}

{{- /* Variables of a role; owner: whether it has the credentials of the tables' owner */ -}}
{{- define "ingot.environment" -}}
{{- range $place, $value := .root.Values.settings }}
- {name: {{ include "ingot.variable" $place }}, value: {{ $value | toString | quote }}}
{{- end }}
- {name: INGOT_DATABASE_SECRETS_KEY_FILE, value: /run/secrets/ingot/master_key}
{{- if .owner }}
- {name: INGOT_DATABASE_CONNECTION_FILE, value: /run/secrets/ingot/database_url}
{{- else }}
- {name: INGOT_DATABASE_CONNECTION_FILE, value: /run/secrets/ingot/database_url_{{ .role }}}
- {name: INGOT_BROKER_URL_FILE, value: /run/secrets/ingot/redis_url_{{ .role }}}
- {name: INGOT_METRICS_HOST_IP, value: {{ .root.Values.listen | quote }}}
- {name: INGOT_METRICS_PORT, value: "6387"}
{{- end }}
{{- end }}

{{- define "ingot.secretVolume" -}}
- name: secrets
  secret:
    secretName: {{ .root.Values.secret }}
    defaultMode: 0440
    items:
      - {key: master_key, path: master_key}
      {{- if .owner }}
      - {key: database_url, path: database_url}
      {{- else }}
      - {key: database_url_{{ .role }}, path: database_url_{{ .role }}}
      - {key: redis_url_{{ .role }}, path: redis_url_{{ .role }}}
      {{- end }}
{{- end }}

{{- /* What all pods have; 999 is the user of the image */ -}}
{{- define "ingot.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 999
  runAsGroup: 999
  fsGroup: 999
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "ingot.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "ingot.selector" . | nindent 8 }}
{{- end }}

{{- define "ingot.container" -}}
image: {{ include "ingot.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- /*
The exporter of a role knows when the role has last worked: an answer, a heartbeat, a tick. Neither probe fails
because the database is away: another start would not mend that.
*/ -}}
{{- define "ingot.probes" -}}
startupProbe:
  httpGet: {path: /ready, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /alive, port: metrics}
  periodSeconds: 20
  timeoutSeconds: 5
  failureThreshold: 6
{{- end }}
