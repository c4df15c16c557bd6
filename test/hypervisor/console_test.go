package hypervisor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseConsole(t *testing.T) {
	for name, row := range map[string]struct {
		log  string
		want []Boot
	}{
		"nothing":                   {"", nil},
		"firmware alone":            {"SeaBIOS\r\n", nil},
		"a log from the middle":     {"GUEST cpu/online=1\r\nGUEST ready\r\n", nil},
		"a boot that has begun":     {"\x1bc\r\nGUEST boot\r\n", []Boot{{Facts: Facts{}}}},
		"a line being written":      {"GUEST boot\r\nGUEST cpu/online=1\r\nGUEST cpu/mod", []Boot{{Facts: Facts{"cpu/online": "1"}}}},
		"a value with a sign":       {"GUEST boot\nGUEST kernel/arguments=a=b c=d\nGUEST ready\n", []Boot{{Facts: Facts{"kernel/arguments": "a=b c=d"}, Ready: true}}},
		"firmware on the same line": {"\x1b[2JGUEST boot\n", []Boot{{Facts: Facts{}}}},
		"the kernel in between":     {"GUEST boot\n[    1.0] GUEST is a word\nGUEST ready\n", []Boot{{Facts: Facts{}, Ready: true}}},
		"two boots with events": {
			"GUEST boot\nGUEST a/b=1\nGUEST ready\nGUEST event=pong\nGUEST event=reboot\nBIOS\nGUEST boot\nGUEST a/b=2\n",
			[]Boot{{Facts: Facts{"a/b": "1"}, Ready: true, Events: []string{"pong", "reboot"}}, {Facts: Facts{"a/b": "2"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, parseConsole(row.log)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFacts(t *testing.T) {
	facts := Facts{
		"block/vdb/serial": "b", "block/vda/serial": "a", "block/sr0/label": "cidata", "blocks/x/y": "",
		"file/sr0/user-data": "aGVsbG8K", "file/sr0/openstack/latest/meta_data.json": "e30=", "volatile/uptime": "3.1",
	}
	if diff := cmp.Diff([]string{"sr0", "vda", "vdb"}, facts.Names("block")); diff != "" {
		t.Error(diff)
	}
	if got := facts.Find("block", "serial", "b"); got != "vdb" {
		t.Errorf("found %q", got)
	}
	if got := facts.Find("block", "serial", "c"); got != "" {
		t.Errorf("found %q", got)
	}
	if diff := cmp.Diff(map[string]string{"user-data": "hello\n", "openstack/latest/meta_data.json": "{}"}, facts.Files("sr0")); diff != "" {
		t.Error(diff)
	}
	if hardware := facts.Hardware(); hardware["volatile/uptime"] != "" || len(hardware) != len(facts)-1 {
		t.Errorf("the hardware is %v", hardware)
	}
}

func TestConsoleSaysWhatItSaw(t *testing.T) {
	console := Console(filepath.Join(t.TempDir(), "console.log"))
	if boots, err := console.Boots(); err != nil || boots != nil {
		t.Errorf("no file has boots %v: %v", boots, err)
	}
	if err := os.WriteFile(string(console), []byte("GUEST boot\nKernel panic\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*pollInterval)
	defer cancel()
	if _, err := console.Ready(ctx); err == nil || !strings.Contains(err.Error(), "Kernel panic") {
		t.Errorf("the error is %v", err)
	}
	time.AfterFunc(2*pollInterval, func() {
		_ = os.WriteFile(string(console), []byte("GUEST boot\nGUEST cpu/online=4\nGUEST ready\n"), 0o600)
	})
	ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if facts, err := console.Ready(ctx); err != nil || facts["cpu/online"] != "4" {
		t.Errorf("the facts are %v: %v", facts, err)
	}
}
