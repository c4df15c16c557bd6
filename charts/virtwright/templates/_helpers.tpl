{{- /* The name of all objects. The chart must not be installed into kube-system. */ -}}
{{- define "virtwright.name" -}}
{{- if eq .Release.Namespace "kube-system" }}{{ fail "namespace: Forbidden: virtwright excludes the VMs of its own namespace and may write any Lease there: install it into a namespace of its own, for example with --namespace virtwright-system --create-namespace" }}{{ end -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | replace "." "-" | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | replace "." "-" | trunc 40 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "virtwright.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: virtwright
{{ include "virtwright.selector" . }}
{{- end }}

{{- define "virtwright.selector" -}}
app.kubernetes.io/name: virtwright
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "virtwright.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "virtwright.name" .) }}
{{- end }}

{{- define "virtwright.secret" -}}
{{- if .Values.certs.secretName }}{{ .Values.certs.secretName }}
{{- else if eq .Values.certs.mode "provided" }}{{ fail "certs.secretName: Required value: certs.mode=provided requires a Secret with tls.crt, tls.key and ca.crt" }}
{{- else }}{{ include "virtwright.name" . }}-serving
{{- end }}
{{- end }}

{{- define "virtwright.image" -}}
{{ include "virtwright.imageOf" (list . .Values.image) }}
{{- end }}

{{- define "virtwright.imageOf" -}}
{{- $root := index . 0 }}{{ $image := index . 1 }}{{ with $root.Values.imageRegistry }}{{ . }}/{{ end -}}
{{ $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default $root.Chart.AppVersion }}{{ end -}}
{{- end }}

{{- define "virtwright.standalone" -}}{{ if eq .Values.mode "standalone" }}true{{ end }}{{- end }}

{{- define "virtwright.v1alpha2" -}}{{ if and (eq .Values.mode "standalone") .Values.apiVersions.v1alpha2 }}true{{ end }}{{- end }}

{{- define "virtwright.subresources" -}}{{ if and (eq .Values.mode "standalone") .Values.subresources.enabled }}true{{ end }}{{- end }}

{{- /* A duration of the values in seconds. */ -}}
{{- define "virtwright.seconds" -}}
{{- $from := toDate "2006" "2000" }}{{ sub (mustDateModify . $from | unixEpoch) (unixEpoch $from) }}
{{- end }}

{{- /* How long before the expiry of a certificate its renewal is overdue, in seconds. */ -}}
{{- define "virtwright.overdue" -}}
{{- $duration := include "virtwright.seconds" (.Values.certs.duration | default "2160h") }}
{{- if and (eq .Values.certs.mode "cert-manager") .Values.certs.renewBefore }}{{ min 604800 (div (include "virtwright.seconds" .Values.certs.renewBefore) 2) }}
{{- else }}{{ min 604800 (div $duration 6) }}
{{- end }}
{{- end }}

{{- /* Rejects lifetimes that cert-manager or the manager would reject. */ -}}
{{- define "virtwright.lifetimes" -}}
{{- $certs := .Values.certs }}
{{- $duration := include "virtwright.seconds" ($certs.duration | default "2160h") | int64 }}
{{- if eq $certs.mode "cert-manager" }}
{{- if lt $duration 3600 }}{{ fail (printf "certs.duration: Invalid value: %q: cert-manager issues certificates for at least 1h" $certs.duration) }}{{ end }}
{{- with $certs.renewBefore }}
{{- $before := include "virtwright.seconds" . | int64 }}
{{- if or (lt $before 300) (ge $before $duration) }}{{ fail (printf "certs.renewBefore: Invalid value: %q: must be at least 5m, and shorter than certs.duration, %s" . $certs.duration) }}{{ end }}
{{- end }}
{{- else if eq $certs.mode "self-signed" }}
{{- $overlap := include "virtwright.seconds" $certs.selfSigned.overlap | int64 }}
{{- if gt (mul 2 $duration) (include "virtwright.seconds" $certs.selfSigned.caDuration | int64) }}{{ fail (printf "certs.duration: Invalid value: %q: must be at most half of certs.selfSigned.caDuration, %s" $certs.duration $certs.selfSigned.caDuration) }}{{ end }}
{{- if or (lt $overlap 4) (gt (mul 4 $overlap) $duration) }}{{ fail (printf "certs.selfSigned.overlap: Invalid value: %q: must be at least 4s, and at most a quarter of certs.duration, %s" $certs.selfSigned.overlap $certs.duration) }}{{ end }}
{{- end }}
{{- end }}

{{- /* Annotations by which cert-manager writes CA bundles. */ -}}
{{- define "virtwright.injection" -}}
{{- if eq .Values.certs.mode "cert-manager" }}
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "virtwright.name" . }}-serving
{{- end }}
{{- end }}

{{- /* The policies and webhook configurations of files/admission, as a list. */ -}}
{{- define "virtwright.admission" -}}
{{- .Files.Get (printf "files/admission/%s.yaml" .Values.mode)
      | replace "@NAMESPACE@" .Release.Namespace
      | replace "@SERVICE@" (printf "%s-webhooks" (include "virtwright.name" .))
      | replace "@HOSTDISK@" (toString (or (has "HostDisk" .Values.featureGates) (has "HostDisk=true" .Values.featureGates)))
      | replace "@MANAGER@" (printf "system:serviceaccount:%s:%s" .Release.Namespace (include "virtwright.serviceAccount" .))
      | replace "\"@CONTROLLERS@\"" (include "virtwright.controllers" .) }}
{{- end }}

{{- /* Users of the controllers of VMs, as elements of a JSON list. */ -}}
{{- define "virtwright.controllers" -}}
{{- $users := list }}
{{- if eq .Values.mode "addon" }}
{{- range list "kubevirt-apiserver" "kubevirt-controller" "kubevirt-handler" "kubevirt-synchronization-controller" }}
{{- $users = append $users (printf "system:serviceaccount:%s:%s" $.Values.kubevirtNamespace .) }}
{{- end }}
{{- end }}
{{- concat $users .Values.trustedUsers | uniq | sortAlpha | toJson | trimPrefix "[" | trimSuffix "]" }}
{{- end }}

{{- /* Adds the chart's labels and annotations to the metadata of an object. */ -}}
{{- define "virtwright.adopt" -}}
{{- $metadata := .object.metadata }}
{{- $_ := set $metadata "labels" (merge (include "virtwright.labels" .root | fromYaml) ($metadata.labels | default dict)) }}
{{- $annotations := merge (.annotations | fromYaml) ($metadata.annotations | default dict) }}
{{- if $annotations }}{{ $_ := set $metadata "annotations" $annotations }}{{ end }}
{{- toYaml .object }}
{{- end }}

{{- /* Placement and user of all pods of the chart. */ -}}
{{- define "virtwright.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Image, resources and security context of all containers of the chart. */ -}}
{{- define "virtwright.container" -}}
image: {{ include "virtwright.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
resources:
  {{- toYaml (.Values.resources | default dict) | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}
