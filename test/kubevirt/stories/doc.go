// Package stories has the stories of virtwright alongside KubeVirt: what users see when KubeVirt's
// own virt-api and virt-controller work on VMs that presets complete.
package stories
