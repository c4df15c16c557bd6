package domain

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

func TestCheckBackendSettings(t *testing.T) {
	for name, test := range map[string]struct {
		settings string
		want     []string
	}{
		"nothing":                {"{}", nil},
		"all":                    {"{softwareEmulation: Allow, emulator: /qemu, entropy: /dev/hwrng, balloonStatsSeconds: 3600, disks: {cache: none, io: native, discard: ignore, errorPolicy: stop, ioThreads: 64}, cpu: {vcpus: '0-3,8', emulator: '4', ioThreads: '5-5'}, memory: {source: Memfd}}", nil},
		"words":                  {"{softwareEmulation: Perhaps, disks: {cache: some, io: slow, discard: maybe, errorPolicy: hope}, memory: {source: Disk}}", []string{"p.softwareEmulation", "p.disks.cache", "p.disks.io", "p.disks.discard", "p.disks.errorPolicy", "p.memory.source"}},
		"files":                  {"{emulator: qemu, entropy: urandom}", []string{"p.emulator", "p.entropy"}},
		"numbers":                {"{balloonStatsSeconds: 3601, disks: {ioThreads: -1}}", []string{"p.balloonStatsSeconds", "p.disks.ioThreads"}},
		"native with a cache":    {"{disks: {cache: writeback, io: native}}", []string{"p.disks.io"}},
		"malformed CPUs":         {"{cpu: {vcpus: all, emulator: '0-', ioThreads: '^1'}}", []string{"p.cpu.vcpus", "p.cpu.emulator", "p.cpu.ioThreads"}},
		"CPUs out of order":      {"{cpu: {vcpus: '3-1', emulator: '4,2', ioThreads: '1-4,4'}}", []string{"p.cpu.vcpus", "p.cpu.emulator", "p.cpu.ioThreads"}},
		"CPUs out of range":      {"{cpu: {vcpus: '0-4096', emulator: '99999999999'}}", []string{"p.cpu.vcpus", "p.cpu.emulator"}},
		"networks":               {"{networks: [{network: pod, type: User}, {network: a/b, type: Bridge, bridge: br0}, {network: '*', type: Tap, vhost: true}]}", nil},
		"network kinds":          {"{networks: [{network: pod}, {network: a, type: Macvtap}, {type: Tap}]}", []string{"p.networks[0].type", "p.networks[1].type", "p.networks[2].network"}},
		"bridges":                {"{networks: [{network: a, type: Bridge}, {network: b, type: Bridge, bridge: 'br 0'}, {network: c, type: Tap, bridge: br0}]}", []string{"p.networks[0].bridge", "p.networks[1].bridge", "p.networks[2].bridge"}},
		"vhost":                  {"{networks: [{network: a, type: User, vhost: false}]}", []string{"p.networks[0].vhost"}},
		"after the rule for all": {"{networks: [{network: a, type: Tap}, {network: '*', type: Tap}, {network: b, type: Tap}, {network: '*', type: User}]}", []string{"p.networks[2].network", "p.networks[3].network"}},
		"twice":                  {"{networks: [{network: a, type: Tap}, {network: a, type: User}]}", []string{"p.networks[1].network"}},
		"paths":                  {"{paths: {sockets: '/s/{uid}', nvram: '/n/{namespace}_{name}', hostDisk: '{path}', claim: '/c/{namespace}/{claim}', containerDisk: '/i/{image}/{index}', overlay: '/o/{uid}/{volume}', cloudInit: '/{name}/{namespace}/{format}', data: '/{uid}/{kind}/{volume}'}}", nil},
		"built-in paths":         {"{paths: {nvram: '/var/lib/libvirt/qemu/nvram/{name}_VARS.fd', overlay: '/var/run/libvirt/kubevirt-ephemeral-disk/{volume}/disk.qcow2'}}", []string{"p.paths.nvram", "p.paths.overlay"}},
		"paths that VMIs share": {"{paths: {sockets: /s, nvram: '/n/{name}', overlay: '/o/{volume}', emptyDisk: '/e/{namespace}/{volume}', cloudInit: '/{volume}/{format}', data: '/{kind}/{volume}'}}",
			[]string{"p.paths.sockets", "p.paths.nvram", "p.paths.overlay", "p.paths.emptyDisk", "p.paths.cloudInit", "p.paths.data"}},
		"paths that volumes share": {"{paths: {hostDisk: '/h/{uid}/{base}', claim: '/c/{uid}', blockClaim: '/dev/vg/{name}', containerDisk: /i/disk, overlay: '/o/{uid}', emptyDisk: '/e/{uid}', data: '/d/{uid}/{folder}/{file}'}}",
			[]string{"p.paths.hostDisk", "p.paths.claim", "p.paths.blockClaim", "p.paths.containerDisk", "p.paths.overlay", "p.paths.emptyDisk", "p.paths.data"}},
		"paths not absolute":   {"{paths: {sockets: s, claim: '{claim}', hostDisk: 'x{path}'}}", []string{"p.paths.sockets", "p.paths.hostDisk", "p.paths.claim"}},
		"unknown placeholders": {"{paths: {sockets: '/{volume}', claim: '/{image}', overlay: '/{Volume}', emptyDisk: '/{}'}}", []string{"p.paths.sockets", "p.paths.claim", "p.paths.overlay", "p.paths.emptyDisk"}},
		"malformed paths":      {"{paths: {sockets: '/a/../b', nvram: '/{uid', claim: '/a}', data: '/d/{volume}/'}}", []string{"p.paths.sockets", "p.paths.nvram", "p.paths.claim", "p.paths.data"}},
	} {
		t.Run(name, func(t *testing.T) {
			var settings v1alpha1.BackendSettings
			if err := yaml.UnmarshalStrict([]byte(test.settings), &settings); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, err := range checkBackendSettings(&settings, field.NewPath("p")) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

func TestBuiltInSettingsAreValid(t *testing.T) {
	settings := builtinBackend()
	for _, rule := range pathRules { // VMIs may share the built-in paths: each has its own pod
		if err := rule.check(rule.of(settings.Paths)); err != nil {
			t.Errorf("%s: %v", rule.name, err)
		}
	}
	settings.Paths = nil
	if errs := checkBackendSettings(&settings, field.NewPath("builtin")); len(errs) > 0 {
		t.Error(errs)
	}
	many := v1alpha1.BackendSettings{BalloonStatsSeconds: ptr.To[int32](-1), Networks: slices.Repeat([]v1alpha1.NetworkRule{{Network: "a", Type: v1alpha1.NetworkTap}}, maxNetworkRules+1)}
	if errs := checkBackendSettings(&many, nil); len(errs) != 1+1+maxNetworkRules {
		t.Error(errs)
	}
}

// TestPathsStayInTheirFolder expands rules with values that contain slashes and dots.
func TestPathsStayInTheirFolder(t *testing.T) {
	for value, want := range map[string]string{
		"web":              "/claims/web/disk",
		"..":               "/claims/%2E./disk",
		".":                "/claims/%2E/disk",
		"../../etc/shadow": "/claims/..%2F..%2Fetc%2Fshadow/disk",
		"a b\x00\n":        "/claims/a%20b%00%0A/disk",
		"{name}":           "/claims/{name}/disk",
		"":                 "/claims/disk",
	} {
		h := &host{vmi: (&goldenCase{}).vmi(), settings: &v1alpha1.BackendSettings{Paths: &v1alpha1.Paths{Claim: "/claims/{claim}/disk"}}}
		if got := h.expand(claimRule, map[string]string{"claim": value}); got != want || len(h.errs) > 0 {
			t.Errorf("%q: got %s and %v, want %s", value, got, h.errs, want)
		}
	}
}
