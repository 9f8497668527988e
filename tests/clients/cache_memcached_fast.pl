# SPDX-License-Identifier: BSD-3-Clause
# Perl's Cache::Memcached::Fast. Arguments: addresses.
use strict;
use warnings;

BEGIN {
    unless (eval { require Cache::Memcached::Fast; 1 }) {
        print "Cache::Memcached::Fast is not installed\n";
        exit 77;
    }
}

my $checks = 0;

sub check {
    my ($good, $what) = @_;
    $checks++;
    die "failed: $what\n" unless $good;
}

# By default it takes a second without an answer for a miss: too short on a busy machine.
my @patient = (connect_timeout => 60, io_timeout => 60);

my $c = Cache::Memcached::Fast->new({
    @patient,
    servers => [map { {address => $_} } @ARGV],
    namespace => "fast:",
    ketama_points => 150,
    nowait => 0,
    max_size => 1024 * 1024,
});

check($c->flush_all, "flush_all");
check($c->set("k", "v") && $c->get("k") eq "v", "set, get");
check(!$c->add("k", "w") && $c->add("new", "w"), "add");
check($c->replace("k", "w") && !$c->replace("absent", "w"), "replace");
check($c->append("k", "x") && $c->prepend("k", "a") && $c->get("k") eq "awx", "append, prepend");
my $had = $c->gets("k");
check($had->[1] eq "awx", "gets");
check($c->cas("k", $had->[0], "by cas"), "cas");
check(!$c->cas("k", $had->[0], "by old cas") && $c->get("k") eq "by cas", "cas that lost");
check($c->set("n", 10) && $c->incr("n", 5) == 15 && $c->decr("n", 20) == 0, "incr, decr");
check($c->touch("n", 1000), "touch");
check($c->delete("k") && !defined $c->get("k"), "delete");
my $stored = $c->set_multi(map { ["m$_", "value $_", 1000] } 0 .. 299);
check((grep { $_ } values %$stored) == 300, "set_multi");
my $many = $c->get_multi(map { "m$_" } 0 .. 599);
check(keys %$many == 300 && $many->{m123} eq "value 123", "get_multi");
my $with_cas = $c->gets_multi(map { "m$_" } 0 .. 9);
check(keys %$with_cas == 10 && $with_cas->{m3}[1] eq "value 3", "gets_multi");
my $swapped = $c->cas_multi(map { ["m$_", $with_cas->{"m$_"}[0], "swapped $_"] } 0 .. 9);
check((grep { $_ } values %$swapped) == 10 && $c->get("m4") eq "swapped 4", "cas_multi");
check($c->set("large", "l" x 900_000) && length($c->get("large")) == 900_000, "a large value");
my $gone = $c->delete_multi(map { "m$_" } 0 .. 299);
check((grep { $_ } values %$gone) == 300 && !defined $c->get("m5"), "delete_multi");
check(keys %{$c->server_versions} == @ARGV, "version of every server");

# Without waiting for answers: everything must have happened when the next answer comes.
my $q = Cache::Memcached::Fast->new({servers => [map { {address => $_} } @ARGV], nowait => 1,
                                     namespace => "quiet:", ketama_points => 150, @patient});
$q->set("q$_", "value $_") for 0 .. 999;
$q->nowait_push;
$many = $q->get_multi(map { "q$_" } 0 .. 999);
check(keys %$many == 1000 && $many->{q999} eq "value 999", "a thousand sets without an answer");
check($c->flush_all && !defined $c->get("large"), "flush_all empties");
print "$checks checks\n";
