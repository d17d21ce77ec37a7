package natstest

import (
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// clusterSize is how many servers a cluster has: the fewest that can lose one.
const clusterSize = 3

// Cluster runs three servers that replicate their streams among each other. It
// returns once they have a leader and know each other.
func Cluster(tb testing.TB, edit ...func(*server.Options)) []*Server {
	tb.Helper()
	routes := make([]*url.URL, clusterSize)
	ports := freePorts(tb, clusterSize)
	for i, port := range ports {
		routes[i] = &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)}
	}
	servers := make([]*Server, clusterSize)
	for i := range servers {
		member := func(o *server.Options) {
			o.ServerName = fmt.Sprintf("s%d", i+1)
			o.Cluster = server.ClusterOpts{Name: "weft-test", Host: "127.0.0.1", Port: ports[i]}
			o.Routes = routes
		}
		servers[i] = Start(tb, append([]func(*server.Options){member}, edit...)...)
	}
	awaitCluster(tb, servers)
	return servers
}

// freePorts finds ports that nobody listens on. Each server must know the others'
// before it starts.
func freePorts(tb testing.TB, n int) []int {
	tb.Helper()
	ports := make([]int, n)
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatalf("natstest: cluster: %v", err)
		}
		defer listener.Close()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports
}

func awaitCluster(tb testing.TB, servers []*Server) {
	tb.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.After(3 * ready); ; {
		if formed(servers) {
			return
		}
		select {
		case <-end:
			tb.Fatal("natstest: cluster not ready")
		case <-look.C:
		}
	}
}

func formed(servers []*Server) bool {
	leaders := 0
	for _, s := range servers {
		if !s.srv.JetStreamIsCurrent() || len(s.srv.JetStreamClusterPeers()) < len(servers) && s.srv.JetStreamIsLeader() {
			return false
		}
		if s.srv.JetStreamIsLeader() {
			leaders++
		}
	}
	return leaders == 1
}
