// Command coredns is CoreDNS with the plugins that kubeadm's Corefile names and no others.
//
// It is a Go module of its own, so that CoreDNS never reaches virtwright's go.mod.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

// order is the order in which a query passes the plugins, as CoreDNS has it.
var order = []string{
	"reload", "health", "ready", "prometheus", "errors", "log",
	"cache", "loadbalance", "kubernetes", "loop", "forward",
}

func main() {
	dnsserver.Directives = order
	coremain.Run()
}
