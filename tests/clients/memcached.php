<?php
// SPDX-License-Identifier: BSD-3-Clause
// PHP's memcached extension. Arguments: text or binary, then addresses.
if (!class_exists('Memcached')) {
    echo "php-memcached is not installed\n";
    exit(77);
}

$checks = 0;

function check(string $what, bool $good): void
{
    global $checks, $c;
    $checks++;
    if (!$good) {
        echo "failed: $what (", $c->getResultMessage(), ")\n";
        exit(1);
    }
}

$is_binary = $argv[1] === 'binary';
$c = new Memcached();
$c->setOptions([
    Memcached::OPT_BINARY_PROTOCOL => $is_binary,
    Memcached::OPT_LIBKETAMA_COMPATIBLE => true,
    Memcached::OPT_TCP_NODELAY => true,
    Memcached::OPT_COMPRESSION => false,
    Memcached::OPT_POLL_TIMEOUT => 60000,
    Memcached::OPT_CONNECT_TIMEOUT => 60000,
]);
foreach (array_slice($argv, 2) as $address) {
    [$host, $port] = explode(':', $address);
    check('addServer', $c->addServer($host, (int)$port));
}

check('flush', $c->flush());
check('set', $c->set('k', 'v'));
check('get', $c->get('k') === 'v');
check('add of a present key', !$c->add('k', 'w') && $c->getResultCode() === Memcached::RES_NOTSTORED
    || $c->getResultCode() === Memcached::RES_DATA_EXISTS);
check('add', $c->add('new', 'w'));
check('replace', $c->replace('k', 'w') && $c->get('k') === 'w');
check('append', $c->append('k', 'x') && $c->prepend('k', 'a') && $c->get('k') === 'awx');
check('a miss', $c->get('absent') === false && $c->getResultCode() === Memcached::RES_NOTFOUND);
check('an array', $c->set('array', ['a' => [1, 2]]) && $c->get('array') === ['a' => [1, 2]]);
check('a number', $c->set('int', 42) && $c->get('int') === 42);
$had = $c->get('k', null, Memcached::GET_EXTENDED);
check('gets', $had['value'] === 'awx' && $had['cas'] > 0);
check('cas', $c->cas($had['cas'], 'k', 'by cas'));
check('cas that lost', !$c->cas($had['cas'], 'k', 'by old cas') && $c->get('k') === 'by cas');
check('increment', $c->set('n', 10) && $c->increment('n', 5) === 15 && $c->decrement('n', 20) === 0);
if ($is_binary) {
    check('increment that creates', $c->increment('made', 1, 7, 0) === 7 && $c->increment('made') === 8);
}
check('touch', $c->touch('n', 1000));
check('delete', $c->delete('k') && $c->get('k') === false);
$many = [];
for ($i = 0; $i < 300; $i++) {
    $many["m$i"] = "value $i";
}
check('setMulti', $c->setMulti($many, 1000));
check('getMulti', $c->getMulti(array_keys($many)) == $many);
$keys = array_keys($many);
check('getDelayed', $c->getDelayed($keys, true));
check('fetchAll', count($c->fetchAll()) === 300);
check('deleteMulti', count(array_filter($c->deleteMulti($keys), fn($r) => $r === true)) === 300);
$large = str_repeat('0123456789', 90000);
check('a large value', $c->set('large', $large) && $c->get('large') === $large);
check('a value that is too large', !$c->set('huge', str_repeat('x', 2 << 20))
    && $c->getResultCode() !== Memcached::RES_SUCCESS);
check('the connection goes on', $c->get('large') === $large);
$versions = $c->getVersion();
check('version', count($versions) === $argc - 2 && strpos(reset($versions), '1.6.') === 0);
foreach ($c->getStats() as $server => $stats) {
    check("stats of $server", isset($stats['curr_items']) || isset($stats['pid']));
}
$quiet = new Memcached();
$quiet->setOptions([Memcached::OPT_BINARY_PROTOCOL => $is_binary, Memcached::OPT_NOREPLY => true,
    Memcached::OPT_LIBKETAMA_COMPATIBLE => true, Memcached::OPT_COMPRESSION => false,
    Memcached::OPT_POLL_TIMEOUT => 60000, Memcached::OPT_CONNECT_TIMEOUT => 60000]);
foreach (array_slice($argv, 2) as $address) {
    [$host, $port] = explode(':', $address);
    $quiet->addServer($host, (int)$port);
}
for ($i = 0; $i < 500; $i++) {
    $quiet->set("q$i", "quiet $i");
}
check('sets without an answer', $quiet->get('q499') === 'quiet 499');
check('flush empties', $c->flush() && $c->get('large') === false);
$c->quit();
echo "$checks checks\n";
