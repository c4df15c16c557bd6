{{- /* The name of what the chart installs, which is not for the system's namespace. */ -}}
{{- define "virtwright.name" -}}
{{- if eq .Release.Namespace "kube-system" }}{{ fail "namespace: Forbidden: virtwright excludes the VMs of its own namespace and may write any Lease there: install it into a namespace of its own, for example with --namespace virtwright-system --create-namespace" }}{{ end -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end -}}
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
{{- else if eq .Values.certs.mode "provided" }}{{ fail "certs.secretName: name the Secret with tls.crt, tls.key and ca.crt that certs.mode=provided serves with" }}
{{- else }}{{ include "virtwright.name" . }}-serving
{{- end }}
{{- end }}

{{- define "virtwright.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "virtwright.standalone" -}}{{ if eq .Values.mode "standalone" }}true{{ end }}{{- end }}

{{- define "virtwright.v1alpha2" -}}{{ if and (eq .Values.mode "standalone") .Values.apiVersions.v1alpha2 }}true{{ end }}{{- end }}

{{- define "virtwright.subresources" -}}{{ if and (eq .Values.mode "standalone") .Values.subresources.enabled }}true{{ end }}{{- end }}

{{- /* The user as which node agents run instances; empty where there are none. */ -}}
{{- define "virtwright.nodeAgent" -}}
{{- if and (eq .Values.mode "standalone") .Values.node.enabled }}{{ printf "system:serviceaccount:%s:%s-node" .Release.Namespace (include "virtwright.name" .) }}{{ end }}
{{- end }}

{{- /* Annotations by which cert-manager writes CA bundles. */ -}}
{{- define "virtwright.injection" -}}
{{- if eq .Values.certs.mode "cert-manager" }}
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "virtwright.name" . }}-serving
{{- end }}
{{- end }}

{{- /* Users whom the policies trust, as the inside of a list in JSON. */ -}}
{{- define "virtwright.trusted" -}}
{{- $users := list (printf "system:serviceaccount:%s:%s" .Release.Namespace (include "virtwright.serviceAccount" .)) }}
{{- if eq .Values.mode "addon" }}
{{- range list "kubevirt-apiserver" "kubevirt-controller" "kubevirt-handler" "kubevirt-synchronization-controller" }}
{{- $users = append $users (printf "system:serviceaccount:%s:%s" $.Values.kubevirtNamespace .) }}
{{- end }}
{{- end }}
{{- with include "virtwright.nodeAgent" . }}{{ $users = append $users . }}{{ end }}
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

{{- /* Where any pod of the chart runs, and as whom. */ -}}
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

{{- /* The image of any container of the chart, what it gets, and what it may. */ -}}
{{- define "virtwright.container" -}}
image: {{ include "virtwright.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}
