// Package installation installs virtwright by its chart on a control plane without nodes: one
// process per replica runs the manager, with the arguments and under exactly the rights that the
// chart gives a pod, and API servers find it through the chart's own Services. What a cluster's
// nodes do for that is done here: ready replicas are endpoints and, while there are none, so are
// ready replicas that terminate, as in kube-proxy.
package installation
