// Command pause holds the namespaces of a pod: it sleeps, buries the orphans that the pod leaves to
// it, and ends with a signal.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	for signal := range signals {
		if signal != syscall.SIGCHLD {
			return
		}
		bury()
	}
}

// bury reaps every child that has ended.
func bury() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}
