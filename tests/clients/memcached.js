// SPDX-License-Identifier: BSD-3-Clause
// memcached from npm: the text protocol. Arguments: addresses.
'use strict';

const { promisify } = require('util');
let Memcached;
try {
  Memcached = require('memcached');
} catch (e) {
  console.log('memcached (npm) is not installed');
  process.exit(77);
}

let checks = 0;

function check(what, good) {
  checks++;
  if (!good) {
    console.log('failed: ' + what);
    process.exit(1);
  }
}

async function refuses(call, what) {
  let refused = false;
  try {
    refused = (await call) === false;
  } catch (e) {
    refused = true;
  }
  check(what, refused);
}

async function exercise() {
  const servers = process.argv.slice(2);
  const c = new Memcached(servers, { timeout: 60000, retries: 0 });
  const call = {};
  for (const name of ['set', 'get', 'gets', 'getMulti', 'add', 'replace', 'append', 'prepend', 'cas',
    'incr', 'decr', 'del', 'touch', 'flush', 'stats', 'version', 'settings', 'slabs', 'items']) {
    call[name] = promisify(c[name]).bind(c);
  }
  await call.flush();
  check('set', await call.set('k', 'v', 600));
  check('get', (await call.get('k')) === 'v');
  check('a miss', (await call.get('absent')) === undefined);
  await refuses(call.add('k', 'w', 600), 'add of a present key');
  check('add', await call.add('new', 'w', 600));
  check('replace', await call.replace('k', 'w', 600));
  await refuses(call.replace('absent', 'w', 600), 'replace of an absent key');
  check('append', await call.append('k', 'x'));
  check('prepend', await call.prepend('k', 'a'));
  const had = await call.gets('k');
  check('gets', had.k === 'awx');
  check('cas', await call.cas('k', 'swapped', had.cas, 600));
  await refuses(call.cas('k', 'lost', had.cas, 600), 'cas that lost');
  check('what cas left', (await call.get('k')) === 'swapped');
  check('an object', await call.set('object', { a: [1, 2] }, 600));
  check('an object back', (await call.get('object')).a[1] === 2);
  check('a number', (await call.set('n', 10, 600)) && (await call.incr('n', 5)) === 15);
  check('decr stops at zero', (await call.decr('n', 20)) === 0);
  check('touch', await call.touch('n', 1000));
  const large = '0123456789'.repeat(90000);
  check('set of a large value', await call.set('large', large, 600));
  check('get of a large value', (await call.get('large')) === large);
  await Promise.all(Array.from({ length: 300 }, (_, i) => call.set('m' + i, 'value ' + i, 600)));
  const many = await call.getMulti(Array.from({ length: 600 }, (_, i) => 'm' + i));
  check('getMulti', Object.keys(many).length === 300 && many.m123 === 'value 123');
  check('del', await call.del('k'));
  check('stats of every server', (await call.stats()).length === servers.length);
  check('settings', (await call.settings()).length === servers.length);
  check('version', (await call.version()).every((v) => v.version.startsWith('1.6.')));
  await call.flush();
  check('flush empties', (await call.get('large')) === undefined);
  c.end();
}

exercise().then(
  () => console.log(checks + ' checks'),
  (err) => {
    console.log('failed: ' + (err && err.stack ? err.stack : JSON.stringify(err)));
    process.exit(1);
  },
);
